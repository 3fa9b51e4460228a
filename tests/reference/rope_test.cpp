// SPDX-License-Identifier: Apache-2.0
#include "reference/rope.hpp"

#include <cmath>
#include <stdexcept>

#include "catch.hpp"
#include "reference/linear.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using namespace kvevict_test::reference;

namespace {

Matrix random_rows(std::size_t rows, std::size_t dim) {
  Matrix out(rows, dim);
  const std::vector<float> values =
      random_values(Shape::normal, static_cast<std::int64_t>(rows * dim), 11);
  out.data.assign(values.begin(), values.end());
  return out;
}

}  // namespace

TEST_CASE("one pair turns by position times frequency") {
  const Rope rope{{0.25}, Pairing::half, 1};
  Matrix x(1, 2);
  x.data = {1, 0};
  const Matrix turned = rotated(x, {2}, rope);
  CHECK(turned(0, 0) == Approx(std::cos(0.5)));
  CHECK(turned(0, 1) == Approx(std::sin(0.5)));
}

TEST_CASE("frequencies fall from 1 to theta^(2/n - 1)") {
  CHECK(rope_frequencies(100, 4) == std::vector<double>{1, 0.1});
}

TEST_CASE("the pairings differ by a permutation of channels") {
  const std::size_t dim = 6;
  const std::vector<double> frequencies = rope_frequencies(10000, dim);
  const Matrix half = random_rows(3, dim);
  Matrix adjacent(3, dim);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < dim / 2; ++j) {
      adjacent(i, 2 * j) = half(i, j);
      adjacent(i, 2 * j + 1) = half(i, j + dim / 2);
    }
  }
  const Positions positions{3, 17, 4000};
  const Matrix a = rotated(half, positions, {frequencies, Pairing::half, 1});
  const Matrix b = rotated(adjacent, positions, {frequencies, Pairing::adjacent, 1});
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < dim / 2; ++j) {
      CHECK(a(i, j) == b(i, 2 * j));
      CHECK(a(i, j + dim / 2) == b(i, 2 * j + 1));
    }
  }
}

TEST_CASE("products depend on the distance of positions only") {
  const Rope rope{rope_frequencies(10000, 8), Pairing::adjacent, 1};
  const Matrix x = random_rows(2, 8);
  const auto product_at = [&](std::int64_t first, std::int64_t second) {
    const Matrix turned = rotated(x, {first, second}, rope);
    return dot(turned.data.data(), &turned.data[8], 8);
  };
  CHECK(product_at(5, 12) == Approx(product_at(1005, 1012)));
  CHECK(product_at(5, 12) != Approx(product_at(5, 13)));
}

TEST_CASE("channels beyond the rotated ones stay, the attention factor scales the others") {
  const Rope rope{rope_frequencies(10000, 4), Pairing::half, 1.5};
  const Matrix x = random_rows(1, 6);
  const Matrix turned = rotated(x, {7}, rope);
  CHECK(turned(0, 4) == x(0, 4));
  CHECK(turned(0, 5) == x(0, 5));
  CHECK(norm(turned.data.data(), 4) == Approx(1.5 * norm(x.data.data(), 4)));
  CHECK_THROWS_AS(rotation_matrix(rope, 0, 3), std::invalid_argument);
}

TEST_CASE("the mean rotation is the closed form of a geometric sum") {
  const double frequency = 0.3;
  const Rope rope{{frequency}, Pairing::half, 1};
  const Matrix mean = mean_rotation(rope, 10, 5, 2);
  // Mean of exp(i f p) over p = 10 .. 14: exp(12 i f) sin(5 f / 2) / (5 sin(f / 2)).
  const double length = std::sin(2.5 * frequency) / (5 * std::sin(0.5 * frequency));
  CHECK(mean(0, 0) == Approx(length * std::cos(12 * frequency)));
  CHECK(mean(1, 0) == Approx(length * std::sin(12 * frequency)));
  CHECK(mean(0, 1) == -mean(1, 0));
}

TEST_CASE("future probes are the chosen rows at their new positions") {
  const Rope rope{rope_frequencies(10000, 4), Pairing::half, 1};
  const Heads queries{random_rows(5, 4)};
  const Heads probes = future_probes(queries, {4, 1}, {9, 30}, rope);
  const Matrix all = rotated(queries[0], {0, 30, 0, 0, 9}, rope);
  for (std::size_t c = 0; c < 4; ++c) {
    CHECK(probes[0](0, c) == all(4, c));
    CHECK(probes[0](1, c) == all(1, c));
  }
}
