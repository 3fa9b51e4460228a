// SPDX-License-Identifier: Apache-2.0
#include "method.hpp"

#include <algorithm>

#include "text_list.hpp"

namespace evaluate {
namespace {

Method oracle() {
  return {std::string(oracle_label),
          kvevict::ProbeAttention{.statistic = kvevict::ProbeStatistic::mean,
                                  .value_norm = kvevict::ValueNorm::norm},
          true};
}

Method parse_method(const std::string& text) {
  if (text == oracle_label) return oracle();
  const std::vector<std::string> parts = split(text, '/');
  Method method{text, demo::ModelPolicy::named(parts.front())};
  for (auto setting = parts.begin() + 1; setting != parts.end(); ++setting) {
    method.policy.set(*setting);
  }
  return method;
}

}  // namespace

std::vector<Method> parse_methods(std::string_view text) {
  std::vector<std::string> asked;
  if (text == "all") {
    for (const demo::ModelPolicy& policy : demo::ModelPolicy::all()) {
      asked.emplace_back(policy.name());
    }
  } else {
    asked = split(text, ',');
  }
  std::vector<std::string> labels = {"Random", "StreamingLLM", std::string(oracle_label)};
  labels.insert(labels.end(), asked.begin(), asked.end());
  std::vector<Method> methods;
  for (const std::string& label : labels) {
    const bool there = std::any_of(methods.begin(), methods.end(),
                                   [&](const Method& method) { return method.label == label; });
    if (there) continue;
    Method method = parse_method(label);
    method.asked = std::find(asked.begin(), asked.end(), label) != asked.end();
    methods.push_back(std::move(method));
  }
  return methods;
}

}  // namespace evaluate
