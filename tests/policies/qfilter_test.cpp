// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/qfilter.hpp"

#include <limits>
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
using kvevict::QFilter;

TEST_CASE("QFilter: scores are those of the double-precision loops", "[policies][qfilter]") {
  check_varied("QFilter", {}, attention_score);
}

TEST_CASE("QFilter: the key that points along the filter goes first", "[policies][qfilter]") {
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(3, 2)};
  inputs.keys[0].data = {3, 4, -3, -4, 4, -3};
  inputs.values = {reference::Matrix(3, 1)};
  inputs.query_filter = reference::Matrix(1, 2);
  inputs.query_filter.data = {0.6, 0.8};
  const Comparison comparison = compare(library_scores(QFilter{}, inputs),
                                        std::vector<double>{-5, 5, 0}, Tolerance{1e-6, 1e-6});
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("QFilter: reads keys and the filter only", "[policies][qfilter]") {
  reference::Inputs inputs = reference::random_inputs({}, 2);
  const std::vector<float> scores = library_scores(QFilter{}, inputs);
  inputs.values = scaled(inputs.values, std::numeric_limits<double>::quiet_NaN());
  inputs.queries = scaled(inputs.queries, std::numeric_limits<double>::quiet_NaN());
  CHECK(library_scores(QFilter{}, inputs) == scores);
}

TEST_CASE("QFilter: one direction for each KV head, of the dimension of keys",
          "[policies][qfilter]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {5, 5}, .dim = 8}, 1);
  const PackedCache<float> cache(inputs);
  const std::vector<float> numbers(64);
  TestResources res({.threads = 1});
  std::vector<float> scores(10);
  const auto problem = [&](std::int64_t heads, std::int64_t dim) {
    return refused([&] {
      kvevict::score_rows(
          res, TestPolicy(QFilter{}), cache.view(),
          kvevict::Evidence<>{.query_filter = {{kvevict::MatrixView<const float>::packed(
                                  numbers.data(), heads, dim)}}},
          kvevict::ScoreView<>{scores.data(), cache.layout()});
    });
  };
  CHECK(problem(4, 8) == "query_filter.heads is 4, must be equal to the KV heads, 2");
  CHECK(problem(2, 7) == "query_filter.dim is 7, must be equal to the dimension of the rows, 8");
}
