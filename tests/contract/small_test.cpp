// SPDX-License-Identifier: Apache-2.0
// No heads, no rows, one row, rows that are all the same.
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "policies/edit_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::KvView;
using kvevict::Selection;

TEST_CASE("contract: heads without rows", "[contract][small]") {
  ContractCase given(reference::random_inputs({.group = 2, .rows = {0, 0, 0}}, 1));
  TestResources res({.threads = 2});
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    CHECK(scores_of(res, policy, given.view(), evidence).empty());
    for (const Budget& budget : {Budget::rows(0), Budget::rows(5), Budget::evict_ratio(0.5)}) {
      const Selection kept =
          kvevict::evict(res, policy, given.view(), evidence, budget, {.sinks = 4, .recent = 4});
      CHECK(rows_of(kept) == std::vector<std::vector<std::int32_t>>(3));
    }
  }
}

TEST_CASE("contract: no heads", "[contract][small]") {
  ContractCase given(reference::random_inputs({.group = 2, .rows = {5}}, 1));
  TestResources res({.threads = 2});
  for (const KvView<const float>& view :
       {KvView<const float>{}, KvView<const float>::hnd(nullptr, nullptr, 0, 5, 8)}) {
    for (const auto& [name, policy] : policy_variants()) {
      INFO(name);
      kvevict::Evidence<> evidence = given.evidence_for(policy);
      if (evidence.attention_mass) evidence.attention_mass = {nullptr, view.layout()};
      CHECK(scores_of(res, policy, view, evidence).empty());
      for (const Budget& budget : {Budget::rows(0), Budget::rows(5), Budget::evict_ratio(0.5)}) {
        const Selection kept = kvevict::evict(res, policy, view, evidence, budget, {.recent = 4});
        CHECK(kept.heads() == 0);
        CHECK(kept.total() == 0);
      }
    }
  }
}

TEST_CASE("contract: a lone row is kept unless no row is asked for", "[contract][small]") {
  for (const std::size_t group : {1u, 3u}) {
    ContractCase given(reference::random_inputs({.group = group, .rows = {1, 1}}, 1));
    TestResources res({.threads = 1});
    for (const auto& [name, policy] : policy_variants()) {
      INFO(name);
      const kvevict::Evidence<> evidence = given.evidence_for(policy);
      CHECK(count_nan(scores_of(res, policy, given.view(), evidence)) == 0);
      for (const Budget& budget : {Budget::rows(1), Budget::rows(9), Budget::evict_ratio(0.5),
                                   Budget::evict_ratio(0.99)}) {
        CHECK(rows_of(kvevict::evict(res, policy, given.view(), evidence, budget)) ==
              std::vector<std::vector<std::int32_t>>{{0}, {0}});
      }
      for (const Budget& budget : {Budget::rows(0), Budget::evict_ratio(1)}) {
        CHECK(kvevict::evict(res, policy, given.view(), evidence, budget).total() == 0);
      }
    }
  }
}

TEST_CASE("contract: rows that are all the same tie, and the first are kept", "[contract][small]") {
  // Multiples of four: matrix products add up the rows beyond them in another order, which can
  // differ in the last bit.
  for (const std::size_t count : {2u, 4u, 64u, 136u}) {
    const reference::Inputs one = reference::random_inputs(
        {.group = 2, .rows = {1}, .dim = 19, .value_dim = 13, .queries = 3}, count);
    ContractCase given(with_rows(one, 0, std::vector<std::size_t>(count, 0)));
    TestResources res({.threads = 1});
    for (const auto& [name, policy] : policy_variants()) {
      if (uses_order_of_rows(policy)) continue;
      INFO(name << ", " << count << " rows");
      const kvevict::Evidence<> evidence = given.evidence_for(policy);
      const std::vector<float> scores = scores_of(res, policy, given.view(), evidence);
      CHECK(same_bits(scores, std::vector<float>(count, scores[0])));
      std::vector<std::int32_t> first;
      for (std::size_t i = 0; i < count / 2; ++i) first.push_back(static_cast<std::int32_t>(i));
      CHECK(rows_of(kvevict::evict(res, policy, given.view(), evidence,
                                   Budget::rows(static_cast<std::int64_t>(count / 2)))) ==
            std::vector<std::vector<std::int32_t>>{first});
    }
  }
}
