// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/snapkv.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::SnapKV;

TEST_CASE("SnapKV: scores are those of the double-precision loops", "[policies][snapkv]") {
  check_varied("SnapKV", {}, attention_score);
  for (const char* const window : {"1", "5", "20", "1000"}) {
    check_varied("SnapKV", {{"window", window}}, attention_score);
  }
  for (const char* const kernel : {"1", "3", "11", "301"}) {
    for (const char* const pooling : {"average", "max"}) {
      check_varied("SnapKV", {{"window", "8"}, {"kernel", kernel}, {"pooling", pooling}},
                   attention_score);
    }
    check_varied("SnapKV", {{"window", "8"}, {"kernel", kernel}, {"count_padding", "false"}},
                 attention_score);
  }
  for (const char* const reduction : {"max", "sum"}) {
    check_varied("SnapKV", {{"window", "16"}, {"reduction", reduction}}, attention_score);
  }
}

TEST_CASE("SnapKV: a cache with holes is masked by position", "[policies][snapkv]") {
  // Rows at 0, 1, 28, 29, 40; the query at 30 sees the first four. The key at 40 would win if the
  // mask counted rows from the end.
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(5, 1)};
  inputs.keys[0].data = {0, std::log(2.0), std::log(3.0), std::log(4.0), 50};
  inputs.values = {reference::Matrix(5, 1)};
  inputs.row_positions = {{0, 1, 28, 29, 40}};
  inputs.queries = {reference::Matrix(1, 1)};
  inputs.queries[0].data = {1};
  inputs.query_positions = {30};
  const std::vector<float> scores = library_scores(SnapKV{.window = 1, .kernel = 1}, inputs);
  const std::vector<double> want = {0.1, 0.2, 0.3, 0.4, 0.4};
  const Comparison comparison = compare(scores, want, tolerance::float32_sum);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("SnapKV: a context no longer than the window scores all rows equally",
          "[policies][snapkv]") {
  for (const std::size_t rows : {1u, 7u, 64u}) {
    const reference::Inputs inputs =
        reference::random_inputs({.group = 2, .rows = {rows}, .queries = rows}, rows);
    const std::vector<float> scores = library_scores(SnapKV{.window = 64}, inputs);
    CHECK(scores == std::vector<float>(rows, scores[0]));
  }
}

TEST_CASE("a context no longer than the window is kept, or refused by what is protected",
          "[policies][snapkv]") {
  TestResources res({.threads = 1});
  const auto check = [&](const TestPolicy& policy, const kvevict::Protect& protect) {
    for (const std::size_t rows : {1u, 15u, 16u}) {
      INFO(policy.name() << ", " << rows << " rows");
      const reference::Inputs inputs =
          reference::random_inputs({.group = 2, .rows = {rows}, .queries = rows}, rows);
      const PackedCache<float> cache(inputs);
      PolicyEvidence evidence(inputs);
      const kvevict::Evidence<> given = evidence.for_policy(policy, cache);
      const auto kept = [&](const kvevict::Budget& budget) {
        return kvevict::evict(res, policy, cache.view(), given, budget, protect).total();
      };
      CHECK(kept(kvevict::Budget::rows(16)) == static_cast<std::int64_t>(rows));
      if (rows == 1) continue;  // half of one row is one row
      CHECK(kvevict_test::refused_budget([&] {
              kept(kvevict::Budget::evict_ratio(0.5));
            }).rfind("protected rows of head 0 is " + std::to_string(rows), 0) == 0);
    }
  };
  check(kvevict::SnapKV{.window = 16}, kvevict::SnapKV{.window = 16}.suggested_protection());
  check(kvevict::RKV{.window = 16}, kvevict::RKV{.window = 16}.suggested_protection());
}

TEST_CASE("SnapKV: rows of the window get the largest score before it", "[policies][snapkv]") {
  const reference::Inputs inputs =
      reference::random_inputs({.group = 3, .rows = {90}, .queries = 20}, 5);
  const std::vector<float> scores = library_scores(SnapKV{.window = 16}, inputs);
  const auto window = scores.end() - 16;
  const float largest = *std::max_element(scores.begin(), window);
  CHECK(std::count(window, scores.end(), largest) == 16);
  CHECK(*std::min_element(scores.begin(), window) < largest);
}

TEST_CASE("SnapKV: only the last queries count", "[policies][snapkv]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {90}, .queries = 40}, 6);
  const std::vector<float> scores = library_scores(SnapKV{.window = 12}, inputs);
  inputs.query_positions = inputs.positions_of_queries();
  for (reference::Matrix& head : inputs.queries) {
    std::vector<std::size_t> last(12);
    for (std::size_t i = 0; i < last.size(); ++i) last[i] = 28 + i;
    head = rows_of(head, last);
  }
  inputs.query_positions.erase(inputs.query_positions.begin(), inputs.query_positions.begin() + 28);
  CHECK(library_scores(SnapKV{.window = 12}, inputs) == scores);
}

TEST_CASE("SnapKV: uniform attention ties every row and evicts none of the window",
          "[policies][snapkv]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {50}, .queries = 8}, 7);
  inputs.queries = scaled(inputs.queries, 0);
  const SnapKV policy{.window = 8, .kernel = 1};
  const std::vector<float> scores = library_scores(policy, inputs);
  CHECK(scores == std::vector<float>(50, scores[0]));

  const PackedCache<float> cache(inputs);
  PolicyEvidence evidence(inputs);
  TestResources res({.threads = 1});
  const kvevict::Selection kept =
      kvevict::evict(res, TestPolicy(policy), cache.view(), evidence.view(),
                     kvevict::Budget::rows(10), policy.suggested_protection());
  const auto head = kept.head(0);
  CHECK(std::vector<std::int32_t>(head.begin(), head.end()) ==
        std::vector<std::int32_t>{0, 1, 42, 43, 44, 45, 46, 47, 48, 49});
}

TEST_CASE("SnapKV: average pooling with counted padding damps the ends", "[policies][snapkv]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {30}, .queries = 2}, 8);
  inputs.queries = scaled(inputs.queries, 0);  // every prefix row gets the same weight
  const std::vector<float> counted = library_scores(SnapKV{.window = 2, .kernel = 5}, inputs);
  CHECK(counted[0] / counted[10] == Approx(0.6));
  CHECK(counted[1] / counted[10] == Approx(0.8));
  CHECK(counted[27] / counted[10] == Approx(0.6));
  const std::vector<float> uncounted =
      library_scores(SnapKV{.window = 2, .kernel = 5, .count_padding = false}, inputs);
  CHECK(uncounted[0] / uncounted[10] == Approx(1));
}

TEST_CASE("SnapKV: evicting after every chunk never exceeds the budget", "[policies][snapkv]") {
  const reference::Inputs whole =
      reference::random_inputs({.group = 2, .rows = {32}, .queries = 32}, 9);
  const TestPolicy policy(SnapKV{.window = 4, .kernel = 3});
  TestResources res({.threads = 1});
  std::vector<std::size_t> held;
  for (std::size_t chunk = 0; chunk < 4; ++chunk) {
    for (std::size_t i = 0; i < 8; ++i) held.push_back(8 * chunk + i);
    reference::Inputs inputs = with_rows(whole, 0, held);
    inputs.row_positions = {reference::Positions(held.begin(), held.end())};
    const std::size_t first_query = 8 * chunk + 4;
    for (reference::Matrix& head : inputs.queries) {
      head = rows_of(head, {first_query, first_query + 1, first_query + 2, first_query + 3});
    }
    inputs.query_positions.clear();
    for (std::size_t i = 0; i < 4; ++i) {
      inputs.query_positions.push_back(static_cast<std::int64_t>(first_query + i));
    }
    const PackedCache<float> cache(inputs);
    PolicyEvidence evidence(inputs);
    const kvevict::Selection kept = kvevict::evict(res, policy, cache.view(), evidence.view(),
                                                   kvevict::Budget::rows(10), {.recent = 4});
    std::vector<std::size_t> remaining;
    for (const std::int32_t row : kept.head(0)) {
      remaining.push_back(held[static_cast<std::size_t>(row)]);
    }
    held = remaining;
    CHECK(held.size() == std::min<std::size_t>(10, 8 * (chunk + 1)));
    CHECK(held.back() == 8 * chunk + 7);
  }
}
