// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <string_view>

#include "text_list.hpp"

namespace evaluate {
namespace {

using command_line::store;
using command_line::store_flag;
using command_line::store_text;

/// A list of values, each read by `read(part)`.
template <auto Member, class Read>
void store_list(Options& options, std::string_view text, Read&& read) {
  (options.*Member).clear();
  for (const std::string& part : split(text, ',')) (options.*Member).push_back(read(part));
}

void store_contexts(Options& options, std::string_view, std::string_view text) {
  store_list<&Options::contexts>(options, text, [](const std::string& part) { return part; });
}

void store_use(Options& options, std::string_view name, std::string_view text) {
  options.use.reset();
  for (const Use use : {Use::tuning, Use::confirming}) {
    if (text == name_of(use)) options.use = use;
  }
  kvevict::require(options.use || text == "all", name, std::string(text),
                   "tuning, confirming or all");
}

void store_ratios(Options& options, std::string_view name, std::string_view text) {
  store_list<&Options::evict_ratios>(options, text, [&](const std::string& part) {
    double ratio = 0.0;
    kvevict::parse_parameter(name, part, ratio);
    kvevict::require(ratio >= 0.0 && ratio <= 1.0, name, ratio, "in [0, 1]");
    return ratio;
  });
}

void store_budgets(Options& options, std::string_view name, std::string_view text) {
  store_list<&Options::budgets>(options, text,
                                [&](const std::string& part) { return parse_budget(name, part); });
}

void store_refits(Options& options, std::string_view name, std::string_view text) {
  store_list<&Options::refits>(options, text,
                               [&](const std::string& part) { return parse_refit(name, part); });
}

void store_protections(Options& options, std::string_view name, std::string_view text) {
  store_list<&Options::protections>(options, text, [&](const std::string& part) {
    const std::size_t plus = part.find('+');
    if (plus == std::string::npos) {
      throw UsageError(std::string(name) + " is '" + part + "', must be SINKS+RECENT");
    }
    kvevict::Protect protect;
    kvevict::parse_parameter(name, part.substr(0, plus), protect.sinks);
    kvevict::parse_parameter(name, part.substr(plus + 1), protect.recent);
    kvevict::require(protect.sinks >= 0 && protect.recent >= 0, name, part, "not negative");
    return protect;
  });
}

void store_queries(Options& options, std::string_view name, std::string_view text) {
  options.agnostic = options.aware = false;
  for (const std::string& part : split(text, ',')) {
    options.agnostic = options.agnostic || part == "agnostic";
    options.aware = options.aware || part == "aware";
    kvevict::require(part == "agnostic" || part == "aware", name, part, "of agnostic, aware");
  }
}

constexpr command_line::Option<Options> table[] = {
    {"", "", "Contexts", nullptr},
    {"--list", "FILE", "the list of contexts", store_text<&Options::list>},
    {"--texts", "FOLDER", "where the list's texts are (default: here)",
     store_text<&Options::texts>},
    {"--contexts", "NAME,..", "only these of the list", store_contexts},
    {"--use", "USE", "only those for tuning, or confirming (default: all)", store_use},
    {"--queries", "WHEN,..",
     "agnostic: questions come after the eviction; aware: before it "
     "(default: agnostic)",
     store_queries},

    {"", "", "Evictions: all combinations", nullptr},
    {"--policies", "NAME,..",
     "policies, NAME/PARAMETER=VALUE/.. with other parameters or probes (probes.last=256), "
     "CriticalKV/NAME/.. around one (default: all)",
     store_text<&Options::policies>},
    {"--evict-ratio", "R,..", "fractions of the rows (default: 0.5,0.75,0.9,0.95)", store_ratios},
    {"--budget", "KIND,..",
     "uniform, global, global/floor=SHARE of a uniform budget in every head "
     "(default: uniform,global)",
     store_budgets},
    {"--refit", "KIND,..",
     "none, values, absorbed, absorbed/PARAMETER=VALUE/.. with other strengths (default: none)",
     store_refits},
    {"--protect", "S+R,..", "first S positions and last R rows always kept (default: 4+32)",
     store_protections},

    {"", "", "Where", nullptr},
    {"--model", "FILE", "GGUF file of the llama architecture", store_text<&Options::model>},
    {"--out", "FOLDER", "results.csv, which a later run goes on with, results.json, summary.csv",
     store_text<&Options::out>},
    {"--store", "FOLDER", "contexts as the model read them, 100 kB a token (default: in --out)",
     store_text<&Options::store>},
    {"--by-use", "", "in the summary, contexts for tuning and for confirming apart",
     store_flag<&Options::by_use>},
    {"--gate", "", "exit code 3 unless the order that is certain is found (order.hpp)",
     store_flag<&Options::gate>},
    {"--threads", "N", "default: all", store<&Options::threads>},
    {"--help", "", "this text", store_flag<&Options::help>},
};

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  command_line::parse<Options>(arguments, table, options);
  if (options.help) return options;
  const auto demand = [](const std::string& value, const char* name) {
    if (value.empty()) throw UsageError(std::string(name) + " is missing");
  };
  demand(options.model, "--model");
  demand(options.list, "--list");
  demand(options.out, "--out");
  kvevict::require(options.threads >= 0 && options.threads <= 1024, "--threads", options.threads,
                   "in [0, 1024]");
  if (options.store.empty()) options.store = options.out + "/prefills";
  return options;
}

std::string help_text() {
  return "usage: kvevict_evaluate --model FILE --list FILE --out FOLDER [option...]\n\n"
         "Measures what policies keep of a model's behaviour, over a list of contexts. Random,\n"
         "StreamingLLM and Oracle, which sees the queries to come, are always among the "
         "policies.\n" +
         command_line::help_of<Options>(table, 24);
}

}  // namespace evaluate
