// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/keydiff.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using kvevict::KeyDiff;

namespace {

reference::Inputs with_keys(std::size_t rows, std::vector<double> keys) {
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(rows, keys.size() / rows)};
  inputs.keys[0].data = std::move(keys);
  inputs.values = {reference::Matrix(rows, 1)};
  return inputs;
}

}  // namespace

TEST_CASE("KeyDiff: scores are those of the double-precision loops", "[policies][keydiff]") {
  check_varied("KeyDiff", {}, attention_score);
}

TEST_CASE("KeyDiff: a zero key has cosine 0", "[policies][keydiff]") {
  CHECK(library_scores(KeyDiff{}, with_keys(3, {2, 0, 0, 0, 5, 0})) ==
        std::vector<float>{-1, 0, -1});
  CHECK(library_scores(KeyDiff{}, with_keys(2, {0, 0, 0, 0})) == std::vector<float>{0, 0});
}

TEST_CASE("KeyDiff: keys that cancel leave no anchor and score 0", "[policies][keydiff]") {
  CHECK(library_scores(KeyDiff{}, with_keys(4, {3, 4, -3, -4, 1, 7, -1, -7})) ==
        std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("KeyDiff: a single key is its own anchor", "[policies][keydiff]") {
  const std::vector<float> scores = library_scores(KeyDiff{}, with_keys(1, {0.3, -0.2, 0.9}));
  CHECK(scores[0] == Approx(-1).epsilon(1e-6));
  CHECK(scores[0] >= -1);  // cosines stay within [-1, 1]
}

TEST_CASE("KeyDiff: keeps the key that differs", "[policies][keydiff]") {
  const std::vector<float> scores =
      library_scores(KeyDiff{}, with_keys(5, {1, 0.1, 1, -0.1, 0.1, 1, 1, 0, 1, 0.2}));
  CHECK(std::max_element(scores.begin(), scores.end()) - scores.begin() == 2);
}

TEST_CASE("KeyDiff: the lengths of keys do not matter", "[policies][keydiff]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {140}, .dim = 20}, 3);
  const std::vector<float> scores = library_scores(KeyDiff{}, inputs);
  for (std::size_t i = 0; i < inputs.keys[0].rows; ++i) {
    // Powers of two, so that the directions stay the same to the last bit.
    const double factor = i % 3 == 0 ? 0x1p-12 : (i % 3 == 1 ? 1 : 0x1p20);
    for (std::size_t c = 0; c < inputs.keys[0].cols; ++c) inputs.keys[0](i, c) *= factor;
  }
  const Comparison comparison =
      compare(library_scores(KeyDiff{}, inputs), scores, tolerance::float32_sum);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("KeyDiff: lengths beyond the range of fp32", "[policies][keydiff]") {
  const std::vector<double> keys = {1, 2, 3, 4, -1, 2, 0, 1, 1, 1, 2, 2};
  const std::vector<float> scores = library_scores(KeyDiff{}, with_keys(3, keys));
  // 8.5e37 * 4 is finite in fp32, the length of (1, 2, 3, 4) * 8.5e37 is not.
  for (const double factor : {1e-38, 1e-25, 1e25, 8.5e37}) {
    std::vector<double> other = keys;
    for (double& value : other) value *= factor;
    const Comparison comparison =
        compare(library_scores(KeyDiff{}, with_keys(3, other)), scores, tolerance::float32_sum);
    INFO("factor " << factor << ": " << comparison.describe());
    CHECK(comparison.within());
  }
}

TEST_CASE("KeyDiff: reads keys only", "[policies][keydiff]") {
  CHECK(KeyDiff{}.needs().empty());
  CHECK_FALSE(KeyDiff{}.comparable_across_heads());
  reference::Inputs inputs = reference::random_inputs({}, 2);
  const std::vector<float> scores = library_scores(KeyDiff{}, inputs);
  inputs.values = scaled(inputs.values, std::numeric_limits<double>::quiet_NaN());
  CHECK(library_scores(KeyDiff{}, inputs) == scores);
}
