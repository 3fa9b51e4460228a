// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/tova.hpp"

#include <cmath>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using kvevict::TOVA;

TEST_CASE("TOVA: scores are those of the double-precision loops", "[policies][tova]") {
  check_varied("TOVA", {}, attention_score);
  for (const char* const reduction : {"max", "sum"}) {
    check_varied("TOVA", {{"reduction", reduction}}, attention_score);
  }
}

TEST_CASE("TOVA: only the last query counts", "[policies][tova]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {90}, .queries = 40}, 6);
  const std::vector<float> scores = library_scores(TOVA{}, inputs);
  inputs.query_positions = {89};
  for (reference::Matrix& head : inputs.queries) head = rows_of(head, {39});
  CHECK(library_scores(TOVA{}, inputs) == scores);
}

TEST_CASE("TOVA: the weights that the query sees sum to one, others are zero", "[policies][tova]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {150}, .queries = 3}, 4);
  inputs.query_positions = {9, 50, 99};
  const std::vector<float> scores = library_scores(TOVA{}, inputs);
  CHECK(std::accumulate(scores.begin(), scores.begin() + 100, 0.0) == Approx(1).epsilon(1e-5));
  CHECK(std::vector<float>(scores.begin() + 100, scores.end()) == std::vector<float>(50, 0.0f));
}

TEST_CASE("TOVA: a cache with holes is masked by position", "[policies][tova]") {
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(5, 1)};
  inputs.keys[0].data = {0, std::log(2.0), std::log(3.0), std::log(4.0), 50};
  inputs.values = {reference::Matrix(5, 1)};
  inputs.row_positions = {{0, 1, 28, 29, 40}};
  inputs.queries = {reference::Matrix(1, 1)};
  inputs.queries[0].data = {1};
  inputs.query_positions = {30};
  const Comparison comparison =
      compare(library_scores(TOVA{}, inputs), std::vector<double>{0.1, 0.2, 0.3, 0.4, 0},
              tolerance::float32_sum);
  INFO(comparison.describe());
  CHECK(comparison.within());
}
