// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <string_view>

namespace kvevict_score {
namespace {

using command_line::store;
using command_line::store_flag;
using command_line::store_text;

void add_setting(Options& options, std::string_view, std::string_view text) {
  options.settings.emplace_back(text);
}

constexpr command_line::Option<Options> table[] = {
    {"", "", "Policy", nullptr},
    {"--policy", "NAME", "the policy, see --list-policies", store_text<&Options::policy>},
    {"--set", "NAME=VALUE", "one of its parameters; may be repeated", add_setting},
    {"--list-policies", "", "list the policies with their parameters and defaults, and stop",
     store_flag<&Options::list_policies>},

    {"", "", "Cache: float16 or float32, both of one type, rows at positions 0, 1, 2, ...",
     nullptr},
    {"--keys", "FILE", "[kv_head, row, dim], as cached, after RoPE", store_text<&Options::keys>},
    {"--values", "FILE", "[kv_head, row, dim]", store_text<&Options::values>},

    {"", "", "Evidence: only what the policy asks for is read", nullptr},
    {"--queries", "FILE", "[query_head, token, dim], the last ones of the context",
     store_text<&Options::queries>},
    {"--queries-are", "FRAME", "pre_rope or post_rope", store<&Options::queries_are>},
    {"--stats-window", "N", "post_rope: statistics of the last N queries (default: up to 64)",
     store<&Options::stats_window>},
    {"--rope-theta", "X", "pre_rope: base of the frequencies", store<&Options::rope_theta>},
    {"--rope-pairing", "PAIRING", "pre_rope: half or adjacent", store<&Options::rope_pairing>},
    {"--rope-dim", "N", "pre_rope: channels that are rotated (default: all)",
     store<&Options::rope_dim>},
    {"--next-position", "N", "pre_rope: tokens seen, the position of the next one",
     store<&Options::next_position>},
    {"--skip-queries", "N", "pre_rope: leave out the first N queries (default: 4)",
     store<&Options::skip_queries>},
    {"--future", "N", "pre_rope: statistics over N future positions (default: 512)",
     store<&Options::future>},
    {"--probe-last", "N", "pre_rope: probes from the last N queries (default: 128)",
     store<&Options::probe_last>},
    {"--probe-sampled", "N", "pre_rope: and from N sampled ones (default: 64)",
     store<&Options::probe_sampled>},
    {"--probe-future", "N", "pre_rope: moved to N future positions (default: 256)",
     store<&Options::probe_future>},
    {"--probe-seed", "N", "pre_rope: seed of the sample (default: 0)", store<&Options::probe_seed>},
    {"--probes", "FILE", "[query_head, probe, dim], after RoPE; instead of those from the queries",
     store_text<&Options::probes>},
    {"--probe-mask", "MASK", "none, or by_position: probes are the last queries (default: none)",
     store<&Options::probe_mask>},
    {"--output-projection", "FILE", "[hidden, query_head * dim]",
     store_text<&Options::output_projection>},
    {"--keys-pre-rope", "FILE", "[kv_head, row, dim], the cached rows' keys before RoPE",
     store_text<&Options::keys_pre_rope>},
    {"--query-filter", "FILE", "[kv_head, dim], a direction for each KV head",
     store_text<&Options::query_filter>},

    {"", "", "Budget: one of the first three, or none to score only", nullptr},
    {"--evict-ratio", "R", "evict this fraction of the rows", store<&Options::evict_ratio>},
    {"--keep-rows", "N", "keep N rows of each head", store<&Options::keep_rows>},
    {"--keep-bytes", "N", "keep N bytes of keys and values in all heads together",
     store<&Options::keep_bytes>},
    {"--rounding", "HOW", "of the ratio: exact, or reference as kvpress does (default: exact)",
     store<&Options::rounding>},
    {"--budget", "SCOPE", "uniform, or global: one threshold for all heads (default: uniform)",
     store<&Options::scope>},
    {"--allow-incomparable", "", "global: also for scores that do not compare across heads",
     store_flag<&Options::allow_incomparable>},
    {"--sinks", "N", "always keep the rows at positions below N (default: 0)",
     store<&Options::sinks>},
    {"--recent", "N", "always keep the last N rows (default: 0)", store<&Options::recent>},

    {"", "", "Output", nullptr},
    {"--scores", "FILE", "write the scores, float32 [kv_head, row]", store_text<&Options::scores>},
    {"--kept", "FILE",
     "write the kept rows, int32 [kv_head, kept], or one file a head when heads differ",
     store_text<&Options::kept>},
    {"--threads", "N", "threads (default: one for each hardware thread)", store<&Options::threads>},
    {"--help", "", "this text", store_flag<&Options::help>},
};

/// Bounds that the library would complain about too, by names that do not stand on a command line.
void require_in_bounds(const Options& o) {
  const auto at_least = [](std::string_view name, std::int64_t value, int bound) {
    kvevict::require(value >= bound, name, value, ">=", bound);
  };
  at_least("--next-position", o.next_position.value_or(0), 0);
  at_least("--stats-window", o.stats_window.value_or(1), 1);
  at_least("--skip-queries", o.skip_queries, 0);
  at_least("--future", o.future, 1);
  at_least("--probe-last", o.probe_last, 0);
  at_least("--probe-sampled", o.probe_sampled, 0);
  at_least("--probe-future", o.probe_future, 1);
  at_least("--keep-rows", o.keep_rows.value_or(0), 0);
  at_least("--keep-bytes", o.keep_bytes.value_or(0), 0);
  at_least("--sinks", o.sinks, 0);
  at_least("--recent", o.recent, 0);
  at_least("--threads", o.threads, 0);
  const double ratio = o.evict_ratio.value_or(0.0);
  kvevict::require(ratio >= 0.0 && ratio <= 1.0, "--evict-ratio", ratio, "in [0, 1]");
}

void require_consistent(const Options& o) {
  const auto demand = [](bool given, std::string_view what) {
    if (!given) throw UsageError(std::string(what));
  };
  demand(!o.policy.empty(), "--policy is missing (--list-policies lists them)");
  demand(!o.keys.empty(), "--keys is missing");
  demand(!o.values.empty(), "--values is missing");
  demand(o.queries.empty() || o.queries_are.has_value(),
         "--queries-are is missing, must be one of pre_rope, post_rope");
  const int budgets = (o.evict_ratio ? 1 : 0) + (o.keep_rows ? 1 : 0) + (o.keep_bytes ? 1 : 0);
  demand(budgets <= 1, "--evict-ratio, --keep-rows and --keep-bytes exclude each other");
  demand(budgets == 1 || o.kept.empty(),
         "--kept needs a budget: --evict-ratio, --keep-rows or --keep-bytes");
  demand(budgets == 1 || !o.scores.empty(),
         "nothing to do: give --scores, or a budget by --evict-ratio, --keep-rows or --keep-bytes");
}

}  // namespace

std::optional<kvevict::Budget> Options::budget() const {
  if (evict_ratio) return kvevict::Budget::evict_ratio(*evict_ratio).with_rounding(rounding);
  if (keep_rows) return kvevict::Budget::rows(*keep_rows);
  if (keep_bytes) return kvevict::Budget::bytes(*keep_bytes);
  return std::nullopt;
}

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  command_line::parse<Options>(arguments, table, options);
  if (options.help || options.list_policies) return options;
  require_in_bounds(options);
  require_consistent(options);
  return options;
}

std::string help_text() {
  const std::string usage =
      "usage: kvevict_score --policy NAME --keys FILE --values FILE [option...]\n\n"
      "Scores the rows of a KV cache and chooses those to keep. Arrays are NumPy files (.npy).\n";
  return usage + command_line::help_of<Options>(table, 27) +
         "\nExit code 2 for a wrong command line, 1 for any other failure.\n";
}

}  // namespace kvevict_score
