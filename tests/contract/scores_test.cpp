// SPDX-License-Identifier: Apache-2.0
// Scores: all written, numbers, the same every time.
#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;

TEST_CASE("contract: every score is written and is a number", "[contract]") {
  for (const reference::Inputs& inputs : {contract_inputs(), contract_inputs_with_holes()}) {
    ContractCase given(inputs);
    for (const auto& [name, policy] : policy_variants()) {
      INFO(name);
      CHECK(count_nan(scores_of(given, policy)) == 0);
    }
  }
}

TEST_CASE("contract: every policy distinguishes rows", "[contract]") {
  ContractCase given(contract_inputs());
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name);
    const std::vector<float> head = head_of(scores_of(given, policy), given.cache.layout(), 0);
    CHECK(*std::max_element(head.begin(), head.end()) >
          *std::min_element(head.begin(), head.end()));
  }
}

TEST_CASE("contract: scores are the same every time", "[contract]") {
  ContractCase given(contract_inputs());
  TestResources res({.threads = 1});
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name);
    const std::vector<float> first = scores_of(given, policy);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    // Resources that other policies have used before, and once more.
    CHECK(same_bits(scores_of(res, policy, given.view(), evidence), first));
    CHECK(same_bits(scores_of(res, policy, given.view(), evidence), first));
  }
}
