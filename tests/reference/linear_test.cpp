// SPDX-License-Identifier: Apache-2.0
#include "reference/linear.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "catch.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using namespace kvevict_test::reference;

namespace {

Matrix random_square(std::size_t n, std::uint64_t seed) {
  Matrix a(n, n);
  const std::vector<float> values =
      random_values(Shape::normal, static_cast<std::int64_t>(n * n), seed);
  a.data.assign(values.begin(), values.end());
  return a;
}

}  // namespace

TEST_CASE("elimination solves what needs pivoting") {
  Matrix a(3, 3);
  a.data = {0, 2, 1, 1, 0, 0, 3, 0, 1};
  const std::vector<double> x = LinearSystem(a).solve(product(a, {1, -2, 5}));
  CHECK(compare(x, std::vector<double>{1, -2, 5}, tolerance::float64_sum).within());
  CHECK(LinearSystem(a).log_determinant() == Approx(std::log(2.0)));
}

TEST_CASE("elimination solves a random system") {
  const Matrix a = random_square(40, 5);
  std::vector<double> want(40);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = static_cast<double>(i) - 20;
  const Comparison comparison =
      compare(LinearSystem(a).solve(product(a, want)), want, {1e-9, 1e-9});  // condition < 1e4
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("a singular matrix is refused") {
  Matrix a(2, 2);
  a.data = {1, 2, 2, 4};
  CHECK_THROWS_AS(LinearSystem(a), std::domain_error);
  CHECK_THROWS_AS(LinearSystem(Matrix(2, 3)), std::invalid_argument);
}

TEST_CASE("products, transposes and traces") {
  Matrix a(2, 3);
  a.data = {1, 2, 3, 4, 5, 6};
  CHECK(product(a, transposed(a)).data == std::vector<double>{14, 32, 32, 77});
  CHECK(product(a, std::vector<double>{1, 0, -1}) == std::vector<double>{-2, -2});
  CHECK(trace(product(a, transposed(a))) == 91);
  CHECK(product(identity(2), a).data == a.data);
  CHECK_THROWS_AS(product(a, a), std::invalid_argument);
}

TEST_CASE("softmax survives large logits and empty sets") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(softmax({1000, 1000}) == std::vector<double>{0.5, 0.5});
  CHECK(softmax({-infinity, 3}) == std::vector<double>{0, 1});
  CHECK(softmax({-infinity, -infinity}) == std::vector<double>{0, 0});
  CHECK(softmax({}).empty());
  const std::vector<double> a = softmax({0, std::log(3.0)});
  CHECK(a[0] == Approx(0.25));
}

TEST_CASE("the complement keeps its digits where a weight is nearly 1") {
  const std::vector<double> others = softmax_complement({0, 60});
  CHECK(others[1] == Approx(std::exp(-60.0)).epsilon(1e-12));
  CHECK(others[0] == Approx(1.0));
}
