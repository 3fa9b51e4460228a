// SPDX-License-Identifier: Apache-2.0
#include "reference/capacity.hpp"

#include <numeric>

#include "catch.hpp"
#include "reference/linear.hpp"
#include "reference/random_inputs.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using namespace kvevict_test::reference;

namespace {

std::vector<double> random_weights(std::size_t count) {
  std::vector<double> w(count);
  for (std::size_t i = 0; i < count; ++i) w[i] = Random(77).uniform(i, 0.01, 1);
  return w;
}

Matrix scaled(Matrix a, double factor) {
  for (double& value : a.data) value *= factor;
  return a;
}

}  // namespace

TEST_CASE("one dimension by hand") {
  Matrix values(2, 1);
  values.data = {2, 1};
  const std::vector<double> w{3, 5};
  // A = 4 + 3 * 4 + 5 * 1 = 21
  CHECK(compare(leverage(values, {}, w, w, {false, 4}), std::vector<double>{12.0 / 21, 5.0 / 21},
                tolerance::float64_sum)
            .within());
  // relative noise: s2 = 17 / 2, A = 25.5
  CHECK(compare(leverage(values, {}, w, w, {true, 0.5}), std::vector<double>{12 / 25.5, 5 / 25.5},
                tolerance::float64_sum)
            .within());
}

TEST_CASE("leverages lie in [0, 1) and sum to d - s2 tr A^-1") {
  const Inputs inputs = random_inputs({.rows = {30}}, 1);
  const Matrix& values = inputs.values[0];
  const std::vector<double> w = random_weights(30);
  const double s2 = 0.7;
  const std::vector<double> r = leverage(values, {}, w, w, {false, s2});

  Matrix capacity = scaled(identity(8), s2);
  for (std::size_t i = 0; i < 30; ++i) {
    for (std::size_t a = 0; a < 8; ++a) {
      for (std::size_t b = 0; b < 8; ++b) capacity(a, b) += w[i] * values(i, a) * values(i, b);
    }
    CHECK(r[i] >= 0);
    CHECK(r[i] < 1);
    CHECK(r[i] <= w[i] * dot(&values.data[i * 8], &values.data[i * 8], 8) / s2);
  }
  double inverse_trace = 0;
  for (std::size_t a = 0; a < 8; ++a) {
    std::vector<double> unit(8, 0.0);
    unit[a] = 1;
    inverse_trace += LinearSystem(capacity).solve(unit)[a];
  }
  CHECK(std::accumulate(r.begin(), r.end(), 0.0) == Approx(8 - s2 * inverse_trace));
}

TEST_CASE("an output projection known by its metric equals projecting every value") {
  const Inputs inputs = random_inputs({.rows = {20}, .hidden = 30}, 5);
  const std::vector<double> w = random_weights(20);
  const Matrix metric = output_metric(inputs.output_projection, 1, 8);
  const Matrix projected = projected_values(inputs, 1);
  CHECK(projected.cols == 30);
  CHECK(compare(leverage(inputs.values[0], metric, w, w, {false, 0.5}),
                leverage(projected, {}, w, w, {false, 0.5}), tolerance::float64_sum)
            .within());
  // Relative noise divides by the dimension of v, not by that of W v.
  CHECK(compare(leverage(inputs.values[0], metric, w, w, {true, 0.1}),
                leverage(projected, {}, w, w, {true, 0.1 * 30 / 8}), tolerance::float64_sum)
            .within());
}

TEST_CASE("the group's metric is that of the stacked outputs") {
  const Inputs inputs = random_inputs({.rows = {12, 12}, .hidden = 10}, 6);
  const std::vector<double> w = random_weights(12);
  Matrix stacked(12, 20);
  for (std::size_t r = 0; r < 2; ++r) {
    const Matrix one = projected_values(inputs, 2 + r);
    for (std::size_t i = 0; i < 12; ++i) {
      for (std::size_t c = 0; c < 10; ++c) stacked(i, 10 * r + c) = one(i, c);
    }
  }
  CHECK(compare(leverage(inputs.values[1], group_output_metric(inputs, 1), w, w, {false, 1}),
                leverage(stacked, {}, w, w, {false, 1}), tolerance::float64_sum)
            .within());
}

TEST_CASE("scaling values by c is scaling the noise by 1/c^2; relative noise sees neither") {
  const Matrix values = random_inputs({.rows = {20}}, 7).values[0];
  const std::vector<double> w = random_weights(20);
  CHECK(compare(leverage(scaled(values, 3), {}, w, w, {false, 0.9}),
                leverage(values, {}, w, w, {false, 0.1}), tolerance::float64_sum)
            .within());
  std::vector<double> smaller = w;
  for (double& value : smaller) value *= 1e-9;
  CHECK(compare(leverage(scaled(values, 3), {}, smaller, smaller, {true, 0.1}),
                leverage(values, {}, w, w, {true, 0.1}), tolerance::float64_sum)
            .within());
}

TEST_CASE("no weight at all gives no leverage") {
  const Matrix values = random_inputs({.rows = {5}}, 7).values[0];
  const std::vector<double> none(5, 0.0);
  CHECK(leverage(values, {}, none, none, {true, 0.1}) == none);
  CHECK(leverage(values, {}, none, none, {false, 1}) == none);
}
