// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace demo {
namespace {

template <class Number>
Number number(const std::string& option, std::string_view text, Number low, Number high) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() ||
      !(value >= low && value <= high)) {
    throw UsageError{option + " is '" + std::string(text) + "', must be a number in [" +
                     kvevict::detail::text_of(low) + ", " + kvevict::detail::text_of(high) + "]"};
  }
  return value;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

std::vector<kvevict::AnyPolicy> chosen_policies(const std::string& names) {
  if (names == "all") return kvevict::AnyPolicy::all();
  std::vector<kvevict::AnyPolicy> policies;
  for (const std::string& name : split(names)) {
    policies.push_back(kvevict::AnyPolicy::named(name));
  }
  return policies;
}

/// `name=value` goes to the one chosen policy, `Policy.name=value` to that policy.
void apply_setting(std::vector<kvevict::AnyPolicy>& policies, const std::string& setting) {
  const std::size_t dot = setting.substr(0, setting.find('=')).find('.');
  if (dot == std::string::npos && policies.size() != 1) {
    throw UsageError{"--set " + setting + ": several policies are chosen, write POLICY." + setting};
  }
  for (kvevict::AnyPolicy& policy : policies) {
    if (dot == std::string::npos) {
      policy.set(setting);
      return;
    }
    if (policy.name() == setting.substr(0, dot)) {
      policy.set(std::string_view(setting).substr(dot + 1));
      return;
    }
  }
  throw UsageError{"--set " + setting + ": no policy of that name is chosen"};
}

BudgetKind budget_kind(const std::string& name) {
  if (name == "uniform") return BudgetKind::uniform;
  if (name == "global") return BudgetKind::global;
  throw UsageError{"--budget is '" + name + "', must be uniform, global or uniform,global"};
}

RefitKind refit_kind(const std::string& name) {
  for (const RefitKind kind : {RefitKind::none, RefitKind::values, RefitKind::absorbed}) {
    if (name == name_of(kind)) return kind;
  }
  throw UsageError{"--refit is '" + name + "', must be of none, values, absorbed"};
}

constexpr std::int64_t many = 1'000'000'000;

}  // namespace

Options parse_options(const std::vector<std::string>& arguments) {
  Options options;
  options.text = KVEVICT_EXAMPLE_DATA_DIR "/lighthouse.txt";
  std::string policies = "all";
  std::vector<std::string> settings;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string option = arguments[i];
    if (option == "--help" || option == "-h") {
      options.help = true;
      return options;
    }
    std::string value;
    if (const std::size_t equals = option.find('=');
        option.starts_with("--") && equals != std::string::npos) {
      value = option.substr(equals + 1);
      option.resize(equals);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      throw UsageError{option + ": needs a value, or is not an option"};
    }
    if (option == "--policy") {
      policies = value;
    } else if (option == "--set") {
      settings.push_back(value);
    } else if (option == "--evict-ratio") {
      options.evict_ratios.clear();
      for (const std::string& part : split(value)) {
        options.evict_ratios.push_back(number(option, part, 0.0, 1.0));
      }
    } else if (option == "--budget") {
      options.budgets.clear();
      for (const std::string& part : split(value)) options.budgets.push_back(budget_kind(part));
    } else if (option == "--refit") {
      options.refits.clear();
      for (const std::string& part : split(value)) options.refits.push_back(refit_kind(part));
    } else if (option == "--last-probes") {
      options.probes.last = number<std::int64_t>(option, value, 0, many);
    } else if (option == "--sinks") {
      options.sinks = number<std::int64_t>(option, value, 0, many);
    } else if (option == "--recent") {
      options.recent = number<std::int64_t>(option, value, 0, many);
    } else if (option == "--context") {
      options.context = number<std::int64_t>(option, value, 8, many);
    } else if (option == "--continue") {
      options.continuation = number<std::int64_t>(option, value, 1, many);
    } else if (option == "--generate") {
      options.generate = number<std::int64_t>(option, value, 0, many);
    } else if (option == "--decode-limit") {
      options.decode_limit = number<std::int64_t>(option, value, 8, many);
    } else if (option == "--slack") {
      options.slack = number<std::int64_t>(option, value, 0, many);
    } else if (option == "--temperature") {
      options.temperature = number(option, value, 0.0, 100.0);
    } else if (option == "--save") {
      options.save = value;
    } else if (option == "--resume") {
      options.resume = value;
    } else if (option == "--threads") {
      options.threads = number(option, value, 1, 1024);
    } else if (option == "--rows") {
      if (value != "float32" && value != "float16") {
        throw UsageError{"--rows is '" + value + "', must be float32 or float16"};
      }
      options.half_rows = value == "float16";
    } else if (option == "--text") {
      options.text = value;
    } else if (option == "--model") {
      options.model = value;
    } else if (option == "--json") {
      options.json = value;
    } else {
      throw UsageError{"'" + option + "' is not an option"};
    }
  }
  if (options.decode_limit == 0 && !(options.save.empty() && options.resume.empty())) {
    throw UsageError{"--save and --resume belong to --decode-limit"};
  }
  if (options.model.empty()) throw UsageError{"--model FILE is needed"};
  try {
    options.policies = chosen_policies(policies);
    for (const std::string& setting : settings) apply_setting(options.policies, setting);
    if (options.policies.size() != 1 && !(options.save.empty() && options.resume.empty())) {
      throw UsageError{"--save and --resume are for one policy"};
    }
  } catch (const kvevict::Error& error) {
    throw UsageError{error.what()};
  }
  return options;
}

std::string usage_text() {
  std::string text = R"(usage: kvevict_demo --model FILE [options]

Reads a text with a small language model, evicts the KV cache with each policy, continues on the
text that follows, and prints how much of the model's behaviour survived.

  --policy NAME[,NAME..]|all   default: all
  --set NAME=VALUE             a parameter of the policy; with several policies POLICY.NAME=VALUE
  --evict-ratio R[,R..]        fraction of the rows to evict; default: 0.5,0.75,0.9
  --budget KIND[,KIND]         uniform: every head keeps its share; global: one threshold over all
                               layers and heads; default: uniform,global
  --refit KIND[,KIND]          adjust the kept rows to the probes: none; values; absorbed: values, and
                               the lost attention mass moved into the keys; default: none
  --last-probes N              last queries of the context among the probes, beside 64 drawn from all
                               of it; default: 128 (512 is recipes::careful)
  --sinks N                    first positions that are always kept; default: 4
  --recent N                   last rows that are always kept; default: 32
  --context N                  tokens to read before evicting; default: 2000
  --continue N                 following tokens to compare on; default: 256
  --generate N                 tokens to generate after each eviction (first ratio and budget);
                               default: 32
  --decode-limit N             instead: read the text in chunks and generate after it while no head
                               of the cache ever holds more than N rows (budget global: N on
                               average), all policies in step, and without a limit for comparison;
                               prints the memory that each cache took at most, the time that
                               eviction and a step took at the beginning and at the end, the text,
                               and its loss by the model with the whole cache
  --slack N                    with it: rows that an eviction makes room for; default: 16
  --temperature T              with it: draws the text; default: 0, the most probable tokens
  --save FILE, --resume FILE   with it, for one policy: writes the state at the end, or goes on from
                               one instead of reading a text
  --rows float32|float16       type of the cached rows; default: float32
  --text FILE                  default: a text that comes with the demo
  --model FILE                 GGUF file of the llama architecture
  --json FILE                  also writes the table as JSON
  --threads N                  default: all

policies and their parameters:
)";
  for (const kvevict::AnyPolicy& policy : kvevict::AnyPolicy::all()) {
    text.append("  ").append(policy.name()).append("\n");
    for (const auto& parameter : policy.parameters()) {
      text.append("      " + parameter.name + "=" + parameter.value + "  " + parameter.description +
                  "\n");
    }
  }
  return text;
}

}  // namespace demo
