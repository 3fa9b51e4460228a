// SPDX-License-Identifier: Apache-2.0
#include "kvevict/any_policy.hpp"

#include <set>
#include <string>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/resources.hpp"

namespace any_policy_test {

using kvevict::AnyPolicy;
using kvevict_test::refused;

namespace {

std::string value_of(const AnyPolicy& policy, const std::string& name) {
  for (const auto& parameter : policy.parameters()) {
    if (parameter.name == name) return parameter.value;
  }
  return "absent";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every policy is found by its own name", "[front][any_policy]") {
  std::set<std::string> names;
  for (const AnyPolicy& policy : AnyPolicy::all()) {
    REQUIRE(AnyPolicy::named(policy.name()) == policy);
    names.emplace(policy.name());
  }
  REQUIRE(names.size() == AnyPolicy::all().size());
  for (const char* name : {"Jacap",
                           "CapKV",
                           "SnapKV",
                           "KeyDiff",
                           "KNorm",
                           "H2O",
                           "ExpectedAttention",
                           "ProbeAttention",
                           "DropLoss",
                           "KVzip",
                           "TOVA",
                           "LagKV",
                           "QFilter",
                           "RKV",
                           "NonCausalAttention",
                           "LeverageScore",
                           "Compactor",
                           "CurDKV",
                           "StreamingLLM",
                           "Random"}) {
    REQUIRE(names.count(name) == 1);
  }
}

TEST_CASE("an unknown name lists the known ones", "[front][any_policy]") {
  for (const char* name : {"", "jacap", "SnapKV ", "Foo"}) {
    const std::string text = refused([&] { AnyPolicy::named(name); });
    INFO(text);
    REQUIRE(contains(text, "policy is '" + std::string(name) + "', must be one of "));
    for (const AnyPolicy& policy : AnyPolicy::all()) REQUIRE(contains(text, policy.name()));
  }
}

TEST_CASE("parameters are set from text", "[front][any_policy]") {
  AnyPolicy policy = AnyPolicy::named("SnapKV");
  policy.set("window=32");
  policy.set("kernel", "7");
  policy.set("pooling=max");
  policy.set("count_padding=false");
  policy.set("reduction=sum");
  const auto& snapkv = std::get<kvevict::SnapKV>(policy.variant());
  REQUIRE(snapkv == kvevict::SnapKV{.window = 32,
                                    .kernel = 7,
                                    .pooling = kvevict::Pooling::max,
                                    .count_padding = false,
                                    .reduction = kvevict::GroupReduction::sum});
  REQUIRE(policy == AnyPolicy(snapkv));
  REQUIRE_FALSE(policy == AnyPolicy::named("SnapKV"));
}

TEST_CASE("what a policy says of its parameters sets the same policy", "[front][any_policy]") {
  for (const AnyPolicy& policy : AnyPolicy::all()) {
    std::vector<AnyPolicy> variants = {policy};
    for (const std::string& preset : policy.presets()) {
      variants.push_back(policy);
      variants.back().set("preset", preset);
    }
    for (const AnyPolicy& variant : variants) {
      AnyPolicy again = policy;
      for (const auto& parameter : variant.parameters()) {
        INFO(policy.name() << " " << parameter.name << "=" << parameter.value);
        REQUIRE_FALSE(parameter.name.empty());
        REQUIRE_FALSE(parameter.description.empty());
        REQUIRE(parameter.value != "?");
        again.set(parameter.name, parameter.value);
      }
      REQUIRE(again == variant);
    }
  }
}

TEST_CASE("presets replace all parameters", "[front][any_policy]") {
  AnyPolicy policy = AnyPolicy::named("Jacap");
  policy.set("temperature=3");
  policy.set("preset=published");
  REQUIRE(std::get<kvevict::Jacap>(policy.variant()) == kvevict::Jacap::published());
  policy.set("preset=measured");
  REQUIRE(std::get<kvevict::Jacap>(policy.variant()) == kvevict::Jacap::measured());
  for (const AnyPolicy& any : AnyPolicy::all()) {
    for (const std::string& name : any.presets()) {
      AnyPolicy with_preset = any;
      with_preset.set("preset", name);
      REQUIRE(with_preset.name() == any.name());
      REQUIRE_NOTHROW(with_preset.validate());
    }
    AnyPolicy unchanged = any;
    const std::string text = refused([&] { unchanged.set("preset=none_such"); });
    INFO(text);
    REQUIRE(contains(text, "preset of " + std::string(any.name()) + " is 'none_such'"));
    for (const std::string& name : any.presets()) REQUIRE(contains(text, name));
    REQUIRE(unchanged == any);
  }
}

TEST_CASE("unknown parameters and values list the valid ones and change nothing",
          "[front][any_policy]") {
  AnyPolicy policy = AnyPolicy::named("SnapKV");
  policy.set("window=16");
  const AnyPolicy before = policy;
  REQUIRE(refused([&] { policy.set("windows=8"); }) ==
          "parameter of SnapKV is 'windows', must be one of window, kernel, pooling, "
          "count_padding, reduction");
  REQUIRE(refused([&] { policy.set("pooling=median"); }) ==
          "pooling is 'median', must be one of average, max");
  REQUIRE(refused([&] { policy.set("window=many"); }) == "window is 'many', must be an integer");
  REQUIRE(refused([&] { policy.set("window=0"); }) == "window is 0, must be >= 1");
  REQUIRE(refused([&] { policy.set("kernel=4"); }) == "kernel is 4, must be odd and >= 1");
  REQUIRE(refused([&] { policy.set("count_padding=1"); }) ==
          "count_padding is '1', must be one of true, false");
  REQUIRE(refused([&] { policy.set("window"); }) ==
          "parameter is 'window', must be written name=value");
  REQUIRE(refused([&] { policy.set("=3"); }).substr(0, 25) == "parameter of SnapKV is ''");
  REQUIRE(policy == before);

  AnyPolicy none = AnyPolicy::named("KNorm");
  REQUIRE(refused([&] { none.set("p=1"); }) ==
          "parameter of KNorm is 'p', must be absent: the policy has none");
  REQUIRE(none.parameters().empty());
}

TEST_CASE("any policy is what it holds", "[front][any_policy]") {
  const kvevict::Jacap jacap = kvevict::Jacap::published();
  const AnyPolicy any(jacap);
  REQUIRE(any.name() == jacap.name());
  REQUIRE(any.needs() == jacap.needs());
  REQUIRE(any.comparable_across_heads() == jacap.comparable_across_heads());
  REQUIRE(AnyPolicy(kvevict::Random{}).comparable_across_heads());
  REQUIRE_THROWS_AS(AnyPolicy(kvevict::SnapKV{.window = 0}).validate(), kvevict::Error);
  REQUIRE(value_of(any, "temperature") == "10");
  REQUIRE(value_of(any, "noise") == "absolute:1");
  STATIC_REQUIRE(kvevict::EvictionPolicy<AnyPolicy, kvevict::CpuResources, float>);
}

}  // namespace any_policy_test
