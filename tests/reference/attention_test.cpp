// SPDX-License-Identifier: Apache-2.0
#include "reference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "catch.hpp"
#include "reference/policies.hpp"
#include "reference/random_inputs.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using namespace kvevict_test::reference;

TEST_CASE("weights of two rows by hand") {
  Matrix keys(2, 4);
  keys.data = {1, 0, 0, 0, 0, 0, 0, 0};
  Matrix query(1, 4);
  query.data = {2, 7, 7, 7};
  // logits 2 / (temperature * 2) and 0
  CHECK(attention(query, keys)(0, 0) == Approx(std::exp(1.0) / (std::exp(1.0) + 1)));
  CHECK(attention(query, keys, 4)(0, 0) == Approx(std::exp(0.25) / (std::exp(0.25) + 1)));
}

TEST_CASE("the causal mask goes by position, also in a cache with holes") {
  const Inputs inputs = random_inputs({.group = 1, .rows = {4}, .queries = 3}, 1);
  const Positions rows{0, 3, 7, 9};
  const Matrix weights = causal_attention(inputs.queries[0], {-1, 5, 9}, inputs.keys[0], rows);
  for (std::size_t i = 0; i < 4; ++i) CHECK(weights(0, i) == 0);
  CHECK(weights(1, 0) > 0);
  CHECK(weights(1, 0) + weights(1, 1) == Approx(1.0));
  CHECK(weights(1, 2) == 0);
  CHECK(weights(2, 0) + weights(2, 1) + weights(2, 2) + weights(2, 3) == Approx(1.0));
  const Matrix free = attention(inputs.queries[0], inputs.keys[0]);
  for (std::size_t i = 0; i < 4; ++i) CHECK(weights(2, i) == free(2, i));
}

TEST_CASE("pooling by hand") {
  const std::vector<double> values{3, 0, 6, -3};
  const auto pooled = [&values](std::size_t kernel, Pooling pooling, bool count_padding) {
    return pool(values, kernel, pooling, count_padding);
  };
  CHECK(pooled(3, Pooling::average, true) == std::vector<double>{1, 3, 1, 1});
  CHECK(pooled(3, Pooling::average, false) == std::vector<double>{1.5, 3, 1, 1.5});
  CHECK(pooled(3, Pooling::max, true) == std::vector<double>{3, 6, 6, 6});
  CHECK(pooled(1, Pooling::average, true) == values);
  CHECK(pooled(9, Pooling::average, false) == std::vector<double>(4, 1.5));
  CHECK(pool({}, 3, Pooling::max, true).empty());
  CHECK_THROWS_AS(pooled(2, Pooling::max, true), std::invalid_argument);
}

TEST_CASE("negative values keep their maximum at the ends") {
  CHECK(pool({-5, -4}, 3, Pooling::max, true) == std::vector<double>{-4, -4});
}

TEST_CASE("probe statistics are ordered and cover the group") {
  const Inputs inputs = random_inputs({}, 2);
  const Scores mean = score(ProbeAttention{ProbeStatistic::mean}, inputs);
  const Scores rms = score(ProbeAttention{ProbeStatistic::rms}, inputs);
  const Scores max = score(ProbeAttention{ProbeStatistic::max}, inputs);
  for (std::size_t g = 0; g < inputs.kv_heads(); ++g) {
    double sum = 0;
    for (std::size_t i = 0; i < mean[g].size(); ++i) {
      CHECK(mean[g][i] <= rms[g][i]);
      CHECK(rms[g][i] <= max[g][i]);
      sum += mean[g][i];
    }
    CHECK(sum == Approx(1.0));
  }
  const Matrix first = probe_weights(inputs, 0);
  const Matrix second = probe_weights(inputs, 1);
  double largest = 0;
  for (std::size_t q = 0; q < first.rows; ++q) {
    largest = std::max({largest, first(q, 7), second(q, 7)});
  }
  CHECK(max[0][7] == largest);
}

TEST_CASE("masked probes see the rows at their position and below") {
  Inputs inputs = random_inputs({.group = 1, .rows = {5}, .probes = 2}, 4);
  inputs.probe_positions = {1, 3};
  const Scores max = score(ProbeAttention{ProbeStatistic::max}, inputs);
  CHECK(max[0][4] == 0);
  CHECK(max[0][3] > 0);
  CHECK(probe_weights(inputs, 0)(0, 2) == 0);
}
