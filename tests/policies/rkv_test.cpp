// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/rkv.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::RKV;

TEST_CASE("RKV: scores are those of the double-precision loops", "[policies][rkv]") {
  // Cosines of the inputs with ties are fractions: a threshold beside them.
  check_varied("RKV", {{"threshold", "0.4571"}}, attention_score);
  for (const char* const lambda : {"0", "0.5", "1"}) {
    check_varied("RKV", {{"lambda", lambda}, {"threshold", "-0.1237"}, {"window", "5"}},
                 attention_score);
  }
  for (const char* const reduction : {"mean", "sum"}) {
    check_varied("RKV", {{"reduction", reduction}, {"kernel", "1"}, {"threshold", "1"}},
                 attention_score);
  }
}

TEST_CASE("RKV: of keys that repeat each other the last one ranks highest", "[policies][rkv]") {
  // No attention to tell them apart, and six keys twice, three times, or once.
  reference::Inputs inputs = reference::random_inputs({.rows = {20}, .dim = 16}, 1);
  inputs.queries = scaled(inputs.queries, 0);
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < 20; ++i) rows.push_back(i < 12 ? i % 4 : i);
  inputs = with_rows(inputs, 0, rows);
  inputs.query_positions = {18, 19};
  for (reference::Matrix& head : inputs.queries) head = rows_of(head, {0, 1});
  const std::vector<float> scores = library_scores(RKV{.threshold = 0.99}, inputs);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(scores[i + 8] > scores[i]);
    CHECK(scores[i + 8] > scores[i + 4]);
    CHECK(scores[i + 4] > scores[i]);
  }
}

TEST_CASE("RKV: with all weight on importance it is attention alone", "[policies][rkv]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {90}, .queries = 20}, 2);
  const RKV policy{.lambda = 1};
  const std::vector<float> scores = library_scores(policy, inputs);
  const std::vector<float> attention =
      library_scores(kvevict::SnapKV{.window = policy.window,
                                     .kernel = policy.kernel,
                                     .pooling = kvevict::Pooling::max,
                                     .reduction = policy.reduction},
                     inputs);
  CHECK(scores == attention);
}

TEST_CASE("RKV: the suggested protection keeps the window", "[policies][rkv]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {60}, .queries = 10}, 3);
  const PackedCache<float> cache(inputs);
  PolicyEvidence evidence(inputs);
  TestResources res({.threads = 1});
  const RKV policy;
  const kvevict::Selection kept =
      kvevict::evict(res, TestPolicy(policy), cache.view(), evidence.view(),
                     kvevict::Budget::rows(8), policy.suggested_protection());
  const auto head = kept.head(0);
  CHECK(std::vector<std::int32_t>(head.begin(), head.end()) ==
        std::vector<std::int32_t>{52, 53, 54, 55, 56, 57, 58, 59});
}
