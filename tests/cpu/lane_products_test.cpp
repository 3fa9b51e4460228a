// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/lane_products.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace lane_products_test {

using namespace kvevict_test;
namespace cpu = kvevict::cpu;
using cpu::LeftOperand;
using cpu::ProductPart;

namespace {

// Sums of 300 products of normal numbers, which may cancel: partial sums stay below about 100, and
// their 300 roundings of 2^-24 of that add up as a random walk.
constexpr Tolerance cancelling_sum{1e-5, 100 * 17.4 * 0x1p-24};

template <class T>
constexpr Tolerance sum_tolerance =
    std::is_same_v<T, double> ? tolerance::float64_sum : cancelling_sum;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class T>
std::vector<T> numbers(std::int64_t count, std::uint64_t seed) {
  const std::vector<float> values = random_values(Shape::normal, count, seed);
  return {values.begin(), values.end()};
}

// a [rows][depth] lies in memory as it is or transposed, each row followed by two numbers that
// belong to no matrix.
template <class T>
void check(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool transposed, T sign,
           ProductPart part) {
  const std::int64_t a_stride = (transposed ? rows : depth) + 2;
  const std::int64_t b_stride = columns + 2;
  const std::int64_t c_stride = columns + 2;
  const std::vector<T> a = numbers<T>((transposed ? depth : rows) * a_stride, 1);
  // Nothing may be read behind the last number of b.
  std::vector<T> b = numbers<T>(depth > 0 ? depth * b_stride - 2 : 0, 2);
  b.shrink_to_fit();
  const LeftOperand<T> left{a.data(), transposed ? 1 : a_stride, transposed ? a_stride : 1};
  std::vector<T> got = numbers<T>(rows * c_stride, 3);
  std::vector<double> want(got.begin(), got.end());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < (part == ProductPart::lower ? r + 1 : columns); ++j) {
      for (std::int64_t i = 0; i < depth; ++i) {
        want[index(r * c_stride + j)] +=
            static_cast<double>(sign) *
            static_cast<double>(a[index(r * left.row + i * left.step)]) *
            static_cast<double>(b[index(i * b_stride + j)]);
      }
    }
  }
  const std::vector<T> before = got;
  cpu::add_product(left, b.data(), b_stride, rows, columns, depth, sign, part, got.data(),
                   c_stride);
  INFO(rows << " x " << columns << " x " << depth << (transposed ? ", transposed" : ""));
  const Comparison comparison =
      compare(std::vector<double>(got.begin(), got.end()), want, sum_tolerance<T>);
  INFO(comparison.describe());
  REQUIRE(comparison.within());
  bool untouched = true;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = part == ProductPart::lower ? r + 1 : columns; j < c_stride; ++j) {
      untouched = untouched && got[index(r * c_stride + j)] == before[index(r * c_stride + j)];
    }
  }
  REQUIRE(untouched);
}

}  // namespace

TEMPLATE_TEST_CASE("products of tiles agree with a double loop", "[cpu][lane_products]", float,
                   double) {
  for (const std::int64_t rows : {1, 3, 8, 9, 17, 40}) {
    for (const std::int64_t columns : {1, 2, 7, 8, 16, 17, 31, 33, 64, 75}) {
      for (const std::int64_t depth : {0, 1, 5, 128, 300}) {
        for (const bool transposed : {false, true}) {
          check<TestType>(rows, columns, depth, transposed, 1, ProductPart::whole);
          check<TestType>(rows, columns, depth, transposed, -1, ProductPart::whole);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("the lower half of a product is written alone", "[cpu][lane_products]", float,
                   double) {
  for (const std::int64_t dim : {1, 2, 3, 5, 8, 9, 15, 17, 33, 64, 80, 130}) {
    for (const std::int64_t depth : {1, 128, 257}) {
      check<TestType>(dim, dim, depth, true, 1, ProductPart::lower);
      check<TestType>(dim, dim, depth, false, -1, ProductPart::lower);
    }
  }
}

TEST_CASE("what is not finite spoils its own channels' products alone", "[cpu][lane_products]") {
  constexpr std::int64_t dim = 19;
  constexpr std::int64_t bad = 5;
  std::vector<double> tile(2 * dim, 0.0);
  for (std::int64_t c = 0; c < dim; ++c) tile[index(c)] = 1.0;
  tile[bad] = std::numeric_limits<double>::infinity();
  std::vector<double> gram(dim * dim, 0.0);
  cpu::add_gram_of_tile(tile.data(), dim, 2, dim, gram.data(), dim);
  for (std::int64_t a = 0; a < dim; ++a) {
    for (std::int64_t b = 0; b <= a; ++b) {
      INFO(a << ", " << b);
      REQUIRE((gram[index(a * dim + b)] == 1.0) == (a != bad && b != bad));
    }
  }
}

}  // namespace lane_products_test
