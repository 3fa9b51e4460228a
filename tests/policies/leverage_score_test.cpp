// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/leverage_score.hpp"

#include <algorithm>
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
using kvevict::LeverageKeys;
using kvevict::LeverageScore;

TEST_CASE("LeverageScore: scores are those of the double-precision loops",
          "[policies][leverage_score]") {
  for (const char* const keys : {"before_rope", "cached"}) {
    for (const char* const noise : {"absolute:0.01", "absolute:3", "relative:0.1"}) {
      check_varied("LeverageScore", {{"keys", keys}, {"noise", noise}}, capacity_score);
    }
  }
}

TEST_CASE("LeverageScore: what it reads follows from the keys", "[policies][leverage_score]") {
  CHECK(LeverageScore{}.needs() == kvevict::EvidenceSet{kvevict::EvidenceKind::keys_before_rope});
  CHECK(LeverageScore{.keys = LeverageKeys::cached}.needs().empty());
  reference::Inputs inputs = reference::random_inputs({.rows = {80}}, 2);
  const std::vector<float> scores = library_scores(LeverageScore{}, inputs);
  inputs.keys = scaled(inputs.keys, -3);
  CHECK(library_scores(LeverageScore{}, inputs) == scores);
  inputs.keys = inputs.keys_before_rope;
  CHECK(library_scores(LeverageScore{.keys = LeverageKeys::cached}, inputs) == scores);
}

TEST_CASE("LeverageScore: a key in a direction of its own cannot be replaced",
          "[policies][leverage_score]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {60}, .dim = 6}, 3);
  for (std::size_t i = 0; i < 60; ++i) inputs.keys_before_rope[0](i, 4) = i == 17 ? 5 : 0;
  const std::vector<float> scores = library_scores(LeverageScore{}, inputs);
  CHECK(std::max_element(scores.begin(), scores.end()) - scores.begin() == 17);
  CHECK(scores[17] > 0.95f);
  // Duplicates share their leverage.
  inputs.keys_before_rope[0](18, 4) = 5;
  CHECK(library_scores(LeverageScore{}, inputs)[17] < 0.7f);
}

TEST_CASE("LeverageScore: rotating all keys changes nothing", "[policies][leverage_score]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {90}, .dim = 10}, 4);
  const std::vector<float> scores = library_scores(LeverageScore{}, inputs);
  inputs.keys_before_rope = rotated(inputs.keys_before_rope, random_rotation(10, 3));
  const Comparison comparison =
      compare(library_scores(LeverageScore{}, inputs), scores, capacity_score);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("LeverageScore: a sketch depends on its seed, and none as wide as the keys is taken",
          "[policies][leverage_score]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {90}, .dim = 12}, 5);
  const std::vector<float> exact = library_scores(LeverageScore{}, inputs);
  const std::vector<float> sketched = library_scores(LeverageScore{.sketch = 6}, inputs);
  CHECK(sketched != exact);
  CHECK(library_scores(LeverageScore{.sketch = 6, .seed = 1}, inputs) != sketched);
  CHECK(library_scores(LeverageScore{.sketch = 12, .seed = 1}, inputs) == exact);
  CHECK(library_scores(LeverageScore::published(), inputs) == exact);
}

TEST_CASE("LeverageScore: keys before RoPE of another shape are refused",
          "[policies][leverage_score]") {
  const PackedCache<float> cache(reference::random_inputs({.rows = {5, 5}, .dim = 8}, 1));
  const std::vector<float> numbers(100);
  TestResources res({.threads = 1});
  std::vector<float> scores(10);
  const auto problem = [&](std::int64_t heads, std::int64_t rows, std::int64_t dim) {
    return refused([&] {
      const auto keys = kvevict::RowsView<const float>::strided(numbers.data(), heads, rows, dim,
                                                                rows * dim, dim);
      kvevict::score_rows(res, TestPolicy(LeverageScore{}), cache.view(),
                          kvevict::Evidence<>{.keys_before_rope = {{keys}}},
                          kvevict::ScoreView<>{scores.data(), cache.layout()});
    });
  };
  CHECK(problem(1, 5, 8) == "keys_before_rope.heads is 1, must be equal to the KV heads, 2");
  CHECK(problem(2, 4, 8) ==
        "keys_before_rope.rows is different, must be equal to those of the cache");
  CHECK(problem(2, 5, 7) ==
        "keys_before_rope.dim is 7, must be equal to the dimension of the rows, 8");
}
