// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/lagkv.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "catch.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::LagKV;

TEST_CASE("LagKV: scores are those of the double-precision loops", "[policies][lagkv]") {
  check_varied("LagKV", {}, attention_score);
  for (const char* const lag : {"1", "3", "8", "60", "128"}) {
    for (const char* const cross : {"false", "true"}) {
      for (const char* const skip : {"0", "4", "70"}) {
        check_varied("LagKV", {{"lag", lag}, {"cross_scoring", cross}, {"skip_first", skip}},
                     attention_score);
      }
    }
  }
}

TEST_CASE("LagKV: every partition but the last holds each rank once", "[policies][lagkv]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {46}}, 1);
  const std::vector<float> scores = library_scores(LagKV{.lag = 10, .skip_first = 3}, inputs);
  // Three ranked partitions from row 3 on, then the last whole one and three rows behind it.
  for (const int first : {3, 13, 23}) {
    std::set<float> ranks(scores.begin() + first, scores.begin() + first + 10);
    CHECK(ranks.size() == 10);
    CHECK(*ranks.begin() == 0.0f);
    CHECK(*ranks.rbegin() == 0.9f);
  }
  CHECK(std::count(scores.begin(), scores.begin() + 3, 0.9f) == 3);
  CHECK(std::count(scores.begin() + 33, scores.end(), 0.9f) == 13);
}

TEST_CASE("LagKV: a head of fewer than two partitions is ranked by recency", "[policies][lagkv]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {23}}, 2);
  const std::vector<float> scores = library_scores(LagKV{.lag = 10, .skip_first = 4}, inputs);
  CHECK(std::is_sorted(scores.begin() + 4, scores.end()));
  CHECK(scores[4] == 0.0f);
  CHECK(std::count(scores.begin(), scores.begin() + 4, scores.back()) == 4);
  // One more row, and there is a partition to rank.
  const std::vector<float> more = library_scores(LagKV{.lag = 10, .skip_first = 4},
                                                 reference::random_inputs({.rows = {24}}, 2));
  CHECK_FALSE(std::is_sorted(more.begin() + 4, more.end()));
}

TEST_CASE("LagKV: scaling a channel changes no importance", "[policies][lagkv]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {64}, .dim = 8}, 3);
  const LagKV policy{.lag = 16, .cross_scoring = true};
  const std::vector<float> scores = library_scores(policy, inputs);
  for (std::size_t i = 0; i < 64; ++i) {
    inputs.keys[0](i, 2) *= 0x1p40;
    inputs.values[0](i, 5) *= 0x1p-30;
  }
  CHECK(library_scores(policy, inputs) == scores);
}

TEST_CASE("LagKV: a channel that is constant over a partition is left out", "[policies][lagkv]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {48}, .dim = 6}, 4);
  for (std::size_t i = 0; i < 48; ++i) inputs.keys[0](i, 3) = 2.5;
  reference::Inputs without = inputs;
  without.keys[0] = reference::Matrix(48, 5);
  for (std::size_t i = 0; i < 48; ++i) {
    for (std::size_t c = 0; c < 5; ++c) without.keys[0](i, c) = inputs.keys[0](i, c + (c > 2));
  }
  without.queries.clear();
  without.probes.clear();
  without.stats = {};
  without.query_filter = {};
  const LagKV policy{.lag = 12, .cross_scoring = true};
  CHECK(library_scores(policy, inputs) == library_scores(policy, without));
  // Nothing but constants: all tie, and nothing is NaN.
  inputs.keys = scaled(inputs.keys, 0);
  inputs.values = scaled(inputs.values, 0);
  const std::vector<float> scores = library_scores(policy, inputs);
  CHECK(scores == std::vector<float>(48, scores[0]));
}

TEST_CASE("LagKV: the suggested protection keeps sinks and the last partition",
          "[policies][lagkv]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {60}}, 5);
  const PackedCache<float> cache(inputs);
  TestResources res({.threads = 1});
  const LagKV policy{.lag = 8};
  const kvevict::Selection kept =
      kvevict::evict(res, TestPolicy(policy), cache.view(), {}, kvevict::Budget::rows(12),
                     policy.suggested_protection());
  const auto head = kept.head(0);
  CHECK(std::vector<std::int32_t>(head.begin(), head.end()) ==
        std::vector<std::int32_t>{0, 1, 2, 3, 52, 53, 54, 55, 56, 57, 58, 59});
}
