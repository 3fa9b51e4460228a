// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/knorm.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using kvevict::KNorm;

TEST_CASE("KNorm: scores are those of the double-precision loops", "[policies][knorm]") {
  check_varied("KNorm", {}, attention_score);
}

TEST_CASE("KNorm: minus the length of the key", "[policies][knorm]") {
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(3, 2)};
  inputs.keys[0].data = {3, 4, 0, 0, -1, 0};
  inputs.values = {reference::Matrix(3, 1)};
  CHECK(library_scores(KNorm{}, inputs) == std::vector<float>{-5, 0, -1});
}

TEST_CASE("KNorm: scaling the keys scales the scores", "[policies][knorm]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {40}}, 1);
  std::vector<float> twice = library_scores(KNorm{}, inputs);
  for (float& score : twice) score *= 2;  // exact: a power of two moves only exponents
  inputs.keys = scaled(inputs.keys, 2);
  CHECK(library_scores(KNorm{}, inputs) == twice);
}

TEST_CASE("KNorm: lengths whose squares leave the range of fp32", "[policies][knorm]") {
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(3, 4)};
  inputs.values = {reference::Matrix(3, 1)};
  for (std::size_t c = 0; c < 4; ++c) {
    inputs.keys[0](0, c) = 1e30;
    inputs.keys[0](1, c) = 1e-30;
    inputs.keys[0](2, c) = 1.5e38;
  }
  const std::vector<double> want = {-2e30, -2e-30, -3e38};
  const Comparison comparison =
      compare(library_scores(KNorm{}, inputs), want, tolerance::float32_stored);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("KNorm: reads keys only", "[policies][knorm]") {
  CHECK(KNorm{}.needs().empty());
  CHECK_FALSE(KNorm{}.comparable_across_heads());
  reference::Inputs inputs = reference::random_inputs({}, 2);
  const std::vector<float> scores = library_scores(KNorm{}, inputs);
  inputs.values = scaled(inputs.values, std::numeric_limits<double>::quiet_NaN());
  CHECK(library_scores(KNorm{}, inputs) == scores);
}
