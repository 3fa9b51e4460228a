// SPDX-License-Identifier: Apache-2.0
#include "support/random.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "catch.hpp"

using namespace kvevict_test;

namespace {
constexpr std::int64_t count = 100000;
}

TEST_CASE("a value depends on seed and index only") {
  const Random a(7);
  const Random same(7);
  const Random other(8);
  CHECK(a.bits(12345) == same.bits(12345));
  CHECK(a.bits(12345) != other.bits(12345));
  CHECK(a.bits(12345) != a.bits(12346));
  std::set<std::uint64_t> distinct;
  for (std::uint64_t i = 0; i < 10000; ++i) distinct.insert(a.bits(i));
  CHECK(distinct.size() == 10000);
}

TEST_CASE("uniform and normal numbers have their moments") {
  const Random random(1);
  bool in_range = true;
  double uniform_sum = 0;
  double sum = 0;
  double squares = 0;
  double neighbours = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double u = random.uniform(i);
    in_range = in_range && u >= 0 && u < 1;
    uniform_sum += u;
    const double x = random.normal(i);
    sum += x;
    squares += x * x;
    neighbours += x * random.normal(i + 1);
  }
  CHECK(in_range);
  // Five standard deviations of each mean.
  CHECK(std::abs(uniform_sum / count - 0.5) < 5 * 0.289 / std::sqrt(count));
  CHECK(std::abs(sum / count) < 5 / std::sqrt(count));
  CHECK(std::abs(squares / count - 1) < 5 * std::sqrt(2.0 / count));
  CHECK(std::abs(neighbours / count) < 5 / std::sqrt(count));
}

TEST_CASE("heavy-tailed numbers are finite, symmetric and reach far out") {
  const std::vector<float> values = random_values(Shape::heavy_tailed, count, 3);
  CHECK(std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }));
  const auto positive = std::count_if(values.begin(), values.end(), [](float x) { return x > 0; });
  CHECK(std::abs(static_cast<double>(positive) / count - 0.5) < 5 * 0.5 / std::sqrt(count));
  // P(|t| > 22.3) is one in five hundred for two degrees of freedom; normal numbers never get
  // there.
  const auto far =
      std::count_if(values.begin(), values.end(), [](float x) { return std::abs(x) > 22.327F; });
  CHECK(far > count / 500 / 2);
  CHECK(far < count / 500 * 2);
}

TEST_CASE("values with ties take few levels") {
  const std::vector<float> values = random_values(Shape::ties, 1000, 4);
  CHECK(std::set<float>(values.begin(), values.end()).size() == 5);
  CHECK(*std::min_element(values.begin(), values.end()) == -1.0F);
}

TEST_CASE("a random permutation holds every number once") {
  std::vector<std::int64_t> order = random_permutation(500, 9);
  CHECK(order != random_permutation(500, 10));
  CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == static_cast<std::int64_t>(i));
  CHECK(random_permutation(0, 1).empty());
}
