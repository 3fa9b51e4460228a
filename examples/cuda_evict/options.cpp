// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <string_view>

namespace cuda_evict {
namespace {

using command_line::store;

constexpr command_line::Option<Options> table[] = {
    {"", "", "Cache: synthetic, made on the device", nullptr},
    {"--layers", "N", "layers (default: 32)", store<&Options::layers>},
    {"--kv-heads", "N", "KV heads of each layer (default: 8)", store<&Options::kv_heads>},
    {"--group", "N", "query heads of each KV head (default: 4)", store<&Options::group>},
    {"--rows", "N", "rows (tokens) in each head (default: 32768)", store<&Options::rows>},
    {"--dim", "N", "channels of a key, and of a value (default: 128)", store<&Options::dim>},
    {"--type", "TYPE", "float, half or bfloat16 (default: bfloat16)", store<&Options::type>},
    {"--queries", "N", "queries that the evidence is made from (default: 256)",
     store<&Options::queries>},
    {"--seed", "N", "of the random numbers (default: 1)", store<&Options::seed>},

    {"", "", "Eviction", nullptr},
    {"--policy", "NAME", "which policy chooses (default: Jacap)",
     [](Options& options, std::string_view, std::string_view text) { options.policy = text; }},
    {"--set", "NAME=VALUE", "one of its parameters; may be repeated",
     [](Options& options, std::string_view, std::string_view text) {
       options.settings.emplace_back(text);
     }},
    {"--evict-ratio", "R", "evict this fraction of the rows (default: 0.75)",
     store<&Options::evict_ratio>},
    {"--sinks", "N", "always keep the first N rows (default: 4)", store<&Options::sinks>},
    {"--recent", "N", "always keep the last N rows (default: 32)", store<&Options::recent>},

    {"", "", "Run", nullptr},
    {"--check-heads", "N", "repeat N heads on the CPU and compare (default: 3)",
     store<&Options::check_heads>},
    {"--rounds", "N", "times are medians of N evictions (default: 5)", store<&Options::rounds>},
    {"--help", "", "this text",
     [](Options& options, std::string_view, std::string_view) { options.help = true; }},
};

/// Bounds that the library would complain about too, by names that do not stand on a command line.
void require_in_bounds(const Options& o) {
  const auto at_least = [](std::string_view name, std::int64_t value, std::int64_t bound) {
    kvevict::require(value >= bound, name, value, ">=", bound);
  };
  at_least("--layers", o.layers, 1);
  at_least("--kv-heads", o.kv_heads, 1);
  at_least("--group", o.group, 1);
  at_least("--rows", o.rows, 1);
  at_least("--dim", o.dim, 1);
  at_least("--sinks", o.sinks, 0);
  at_least("--recent", o.recent, 0);
  at_least("--rounds", o.rounds, 1);
  kvevict::require(o.queries > 4 && o.queries <= o.rows, "--queries", o.queries,
                   "above 4 (those of the sinks do not count) and at most --rows,", o.rows);
  kvevict::require(o.check_heads >= 0 && o.check_heads <= o.heads(), "--check-heads", o.check_heads,
                   "in [0, heads of all layers], heads =", o.heads());
  kvevict::require(o.evict_ratio >= 0.0 && o.evict_ratio <= 1.0, "--evict-ratio", o.evict_ratio,
                   "in [0, 1]");
}

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  command_line::parse<Options>(arguments, table, options);
  if (!options.help) require_in_bounds(options);
  return options;
}

std::string help_text() {
  const std::string usage =
      "usage: cuda_evict [option...]\n\n"
      "Evicts a synthetic KV cache of a whole model on a GPU, compacts it in place, compares some\n"
      "heads with the CPU, and does it once more as a CUDA graph.\n";
  return usage + command_line::help_of<Options>(table, 22) +
         "\nExit code 2 for a wrong command line, 77 without a CUDA device, 1 for any other "
         "failure.\n";
}

}  // namespace cuda_evict
