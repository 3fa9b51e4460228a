// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/compactor.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using kvevict::Compactor;

namespace {

// z-scores divide by a deviation, and both parts may cancel: what is right to 1e-4 of the leverage
// is so of the largest blended score.
constexpr Tolerance blended_score{1e-4, 1e-4};

}  // namespace

TEST_CASE("Compactor: scores are those of the double-precision loops", "[policies][compactor]") {
  check_varied("Compactor", {}, blended_score);
  for (const char* const chunk : {"7", "64"}) {
    check_varied("Compactor", {{"chunk", chunk}, {"padding", "zeros"}, {"blending", "1.5"}},
                 blended_score);
  }
  // Rows fewer than channels all have leverages near one, unless noise keeps them apart. Two rows
  // have the same leverage in any case: nothing but rounding is left of their difference.
  for (const NamedInputs& named : varied_inputs()) {
    const auto& heads = named.inputs.keys;
    if (std::any_of(heads.begin(), heads.end(),
                    [](const reference::Matrix& keys) { return keys.rows == 2; })) {
      continue;
    }
    const Comparison comparison = compare_with_reference(
        "Compactor",
        {{"keys", "cached"}, {"noise", "relative:0.5"}, {"skip_first", "0"}, {"skip_last", "0"}},
        named.inputs, blended_score);
    INFO(named.name << ": " << comparison.describe());
    CHECK(comparison.within());
  }
  check_varied("Compactor", {{"skip_first", "1"}, {"skip_last", "200"}}, blended_score);
}

TEST_CASE("Compactor: the rows left out get the largest score", "[policies][compactor]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {60}, .queries = 60}, 1);
  const std::vector<float> scores = library_scores(Compactor{}, inputs);
  const float largest = *std::max_element(scores.begin() + 8, scores.end() - 4);
  CHECK(std::count(scores.begin(), scores.begin() + 8, largest) == 8);
  CHECK(std::count(scores.end() - 4, scores.end(), largest) == 4);
}

TEST_CASE("Compactor: a head without other rows scores all alike", "[policies][compactor]") {
  for (const std::size_t rows : {1u, 8u, 10u, 12u}) {
    const reference::Inputs inputs = reference::random_inputs({.rows = {rows}}, rows);
    CHECK(library_scores(Compactor{}, inputs) == std::vector<float>(rows, 0.0f));
  }
  // kvpress refuses up to twelve rows; the thirteenth is alone and cannot differ.
  const reference::Inputs inputs = reference::random_inputs({.rows = {14}}, 14);
  const std::vector<float> scores = library_scores(Compactor{}, inputs);
  CHECK(scores[8] != scores[9]);
}

TEST_CASE("Compactor: the rows left out take no part", "[policies][compactor]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {40}, .queries = 40}, 2);
  const std::vector<float> scores = library_scores(Compactor{}, inputs);
  for (const std::size_t i : {0u, 5u, 7u, 36u, 39u}) {
    inputs.keys[0](i, 1) = 50;
    inputs.keys_before_rope[0](i, 1) = -50;
    inputs.values[0](i, 1) = 50;
    for (reference::Matrix& head : inputs.queries) head(i, 0) = 9;
  }
  CHECK(library_scores(Compactor{}, inputs) == scores);
}
