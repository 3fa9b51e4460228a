// SPDX-License-Identifier: Apache-2.0
// The element type is storage only: what all three types hold exactly gives the same scores.
#include <cmath>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "support/backend.hpp"

namespace elements_test {

using namespace kvevict_test;

namespace {

// Multiples of 1/32 below 4 in magnitude: seven bits, which bfloat16's eight can hold.
void quantise(reference::Heads& heads) {
  for (reference::Matrix& head : heads) {
    for (double& value : head.data) {
      value = std::fmod(std::nearbyint(value * 32), 127) / 32;
    }
  }
}

template <class T>
std::vector<float> scores_with(ContractCase& given, const TestPolicy& policy) {
  const PackedCache<T> cache(given.inputs);
  TestResources res({.threads = 1});
  return scores_of(res, policy, cache.view(), given.evidence_for(policy));
}

}  // namespace

TEST_CASE("contract: float, half and bfloat16 give the same scores", "[contract]") {
  reference::Inputs inputs = contract_inputs();
  quantise(inputs.keys);
  quantise(inputs.values);
  ContractCase given(inputs);
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name);
    const std::vector<float> scores = scores_of(given, policy);
    CHECK(same_bits(scores_with<kvevict::half>(given, policy), scores));
    CHECK(same_bits(scores_with<kvevict::bfloat16>(given, policy), scores));
  }
}

TEST_CASE("contract: float, half and bfloat16 keep the same rows", "[contract]") {
  reference::Inputs inputs = contract_inputs();
  quantise(inputs.keys);
  quantise(inputs.values);
  ContractCase given(inputs);
  const PackedCache<kvevict::half> half_cache(inputs);
  const PackedCache<kvevict::bfloat16> bfloat16_cache(inputs);
  TestResources res({.threads = 1});
  for (const PolicyVariant& variant : default_policies()) {
    const TestPolicy& policy = variant.policy;
    INFO(variant.name);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    const auto select = [&](const auto& cache) {
      return kvevict::evict(res, policy, cache.view(), evidence, kvevict::Budget::rows(11),
                            {.recent = 3});
    };
    const kvevict::Selection kept = select(given.cache);
    CHECK(select(half_cache) == kept);
    CHECK(select(bfloat16_cache) == kept);
  }
}

}  // namespace elements_test
