// SPDX-License-Identifier: Apache-2.0
#include "contract/policy_variants.hpp"

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "support/backend.hpp"

namespace kvevict_test {

using namespace kvevict;

namespace {

// Lengths by which rows are cut, so small that the contract's heads have several pieces.
std::vector<std::string> short_lengths(std::string_view parameter) {
  if (parameter == "lag") return {"7"};
  if (parameter == "chunk") return {"11"};
  if (parameter == "sketch") return {"5"};
  return {};
}

template <class Field>
std::vector<std::string> other_values(std::string_view parameter, const Field&) {
  std::vector<std::string> values = short_lengths(parameter);
  if constexpr (std::is_same_v<Field, bool>) {
    values = {"false", "true"};
  } else if constexpr (std::is_enum_v<Field>) {
    for (const auto& entry : enum_names(Field{})) values.emplace_back(entry.name);
  } else if constexpr (std::is_same_v<Field, Noise>) {
    values = {"absolute:0.5", "relative:0.01"};
  } else if constexpr (std::is_same_v<Field, Epsilon>) {
    values = {"absolute:0.02", "per_row:0.5"};
  }
  return values;
}

void add_variants(const TestPolicy& policy, std::vector<PolicyVariant>& variants) {
  const std::string name(policy.name());
  variants.push_back({name, policy});
  const auto visit = [&](std::string_view parameter, const auto& field, std::string_view) {
    // The policies inside of decorators have variants of their own.
    if (parameter.find('.') != std::string_view::npos) return;
    for (const std::string& value : other_values(parameter, field)) {
      TestPolicy changed = policy;
      changed.set(parameter, value);
      if (changed == policy) continue;
      variants.push_back({name + " " + std::string(parameter) + "=" + value, changed});
    }
  };
  std::visit([&](const auto& alternative) { alternative.parameters(alternative, visit); },
             policy.variant());
  for (const std::string& preset : policy.presets()) {
    TestPolicy changed = policy;
    changed.set("preset", preset);
    if (changed == policy) continue;
    variants.push_back({name + " preset=" + preset, changed});
  }
}

// Those that run: where only some do, each call returns others than the one before.
std::vector<PolicyVariant> that_run(const std::vector<PolicyVariant>& all) {
  static std::uint64_t calls = 0;
  std::uint64_t number = calls++;
  std::vector<PolicyVariant> some;
  for (const PolicyVariant& variant : all) {
    if (case_runs(number++)) some.push_back(variant);
  }
  return some;
}

}  // namespace

std::vector<PolicyVariant> policy_variants() {
  static const std::vector<PolicyVariant> all = [] {
    std::vector<PolicyVariant> variants;
    for (const TestPolicy& policy : TestPolicy::all()) add_variants(policy, variants);
    // What decorators do by numbers.
    variants.push_back(
        {"ValueWeighted first_stage=0.3", ValueWeighted<SnapKV>{.first_stage = 0.3}});
    variants.push_back(
        {"BlockStreaming keep=20 block=8", BlockStreaming<KeyDiff>{.keep = 20, .block = 8}});
    variants.push_back({"SpanProtection closed=9", SpanProtection<KNorm>{.closed = 9}});
    variants.push_back({"SinkDetection threshold=0.9", SinkDetection<KeyDiff>{.threshold = 0.9}});
    return variants;
  }();
  return that_run(all);
}

std::vector<PolicyVariant> default_policies() {
  std::vector<PolicyVariant> variants;
  for (const TestPolicy& policy : TestPolicy::all()) {
    variants.push_back({std::string(policy.name()), policy});
  }
  return that_run(variants);
}

std::vector<PolicyVariant> variants_for_backend() {
  return on_cpu ? policy_variants() : default_policies();
}

bool keyed_by_head_number(const TestPolicy& policy) { return policy.name() == "Random"; }

bool uses_order_of_rows(const TestPolicy& policy) {
  // Random draws by position; the others attend causally, pool along the rows, cut them into
  // windows, or rank them.
  for (const char* const name :
       {"SnapKV", "H2O", "KVzip", "TOVA", "LagKV", "NonCausalAttention", "Compactor", "CurDKV",
        "RKV", "StreamingLLM", "Random", "ChunkWise", "ValueWeighted", "Blend", "SpanProtection",
        "BlockStreaming"}) {
    if (policy.name() == name) return true;
  }
  return false;
}

bool uses_absolute_positions(const TestPolicy& policy) {
  return policy.name() == "StreamingLLM" || policy.name() == "Random" ||
         policy.name() == "SpanProtection";
}

bool chooses_its_evidence(const TestPolicy& policy) {
  const Jacap* jacap = std::get_if<Jacap>(&policy.variant());
  return jacap != nullptr && jacap->evidence == WeightEvidence::automatic;
}

}  // namespace kvevict_test
