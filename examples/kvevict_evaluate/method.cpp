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

/// Whether the setting is one of the probes'.
bool set_probes(const std::string& setting, kvevict::FutureProbesOptions& probes) {
  const std::size_t equals = std::min(setting.find('='), setting.size());
  const std::string name = setting.substr(0, equals);
  bool found = false;
  const auto field = [&](std::string_view of, auto& value) {
    if (name != of) return;
    kvevict::parse_parameter(name, setting.substr(std::min(equals + 1, setting.size())), value);
    found = true;
  };
  field("probes.last", probes.last);
  field("probes.sampled", probes.sampled);
  field("probes.future", probes.future);
  field("probes.seed", probes.seed);
  return found;
}

Method parse_method(const std::string& text) {
  if (text == oracle_label) return oracle();
  std::vector<std::string> parts = split(text, '/');
  const bool critical = parts.front() == critical_label && parts.size() > 1;
  if (critical) parts.erase(parts.begin());
  Method method{text, demo::ModelPolicy::named(parts.front())};
  method.critical = critical;
  for (auto setting = parts.begin() + 1; setting != parts.end(); ++setting) {
    if (!set_probes(*setting, method.probes)) method.policy.set(*setting);
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
    asked.push_back(std::string(critical_label) + "/SnapKV");
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
