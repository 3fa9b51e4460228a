// SPDX-License-Identifier: Apache-2.0
#include "kvevict/allocators/largest_remainder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "support/random.hpp"

namespace largest_remainder_test {

using kvevict::Quota;
using kvevict_test::Random;
using kvevict_test::refused_budget;

namespace {

using Counts = std::vector<std::int64_t>;

Counts divide(std::vector<Quota> quotas, std::int64_t total) {
  Counts order(quotas.size());
  kvevict::divide_rows(quotas.data(), static_cast<std::int64_t>(quotas.size()), total,
                       order.data());
  Counts counts;
  for (const Quota& quota : quotas) counts.push_back(quota.count);
  return counts;
}

// x_i = clamp(t weight_i, low_i, high_i) with t by bisection.
std::vector<double> exact_shares(const std::vector<Quota>& quotas, double total) {
  double low = 0.0;
  double high = 1e18;
  std::vector<double> shares(quotas.size());
  for (int step = 0; step < 300; ++step) {
    const double t = 0.5 * (low + high);
    double sum = 0.0;
    for (std::size_t i = 0; i < quotas.size(); ++i) {
      shares[i] =
          std::clamp(t * static_cast<double>(quotas[i].weight), static_cast<double>(quotas[i].low),
                     static_cast<double>(quotas[i].high));
      sum += shares[i];
    }
    (sum < total ? low : high) = t;
  }
  return shares;
}

}  // namespace

TEST_CASE("the largest remainders get what rounding down leaves", "[allocators]") {
  REQUIRE(divide({{3, 0, 99}, {3, 0, 99}, {4, 0, 99}}, 10) == Counts{3, 3, 4});
  // 2.5, 2.5, 5: the first of the equal remainders.
  REQUIRE(divide({{1, 0, 99}, {1, 0, 99}, {2, 0, 99}}, 10) == Counts{3, 2, 5});
  // 0.7, 2.8, 3.5
  REQUIRE(divide({{1, 0, 99}, {4, 0, 99}, {5, 0, 99}}, 7) == Counts{1, 3, 3});
  REQUIRE(divide({{1, 0, 99}, {4, 0, 99}, {5, 0, 99}}, 0) == Counts{0, 0, 0});
  REQUIRE(divide({}, 0).empty());
}

TEST_CASE("bounds that are hit leave the rest in proportion", "[allocators]") {
  REQUIRE(divide({{10, 0, 3}, {1, 0, 99}, {1, 0, 99}}, 9) == Counts{3, 3, 3});
  REQUIRE(divide({{0, 2, 9}, {1, 0, 99}, {3, 0, 99}}, 10) == Counts{2, 2, 6});
  // A floor and a cap at once.
  REQUIRE(divide({{8, 0, 2}, {1, 4, 9}, {1, 0, 9}}, 9) == Counts{2, 4, 3});
  REQUIRE(divide({{5, 3, 3}, {1, 2, 2}}, 5) == Counts{3, 2});
}

TEST_CASE("quotas without weight share equally what nobody else can take", "[allocators]") {
  REQUIRE(divide({{0, 0, 9}, {0, 0, 9}, {0, 0, 9}}, 8) == Counts{3, 3, 2});
  REQUIRE(divide({{7, 0, 4}, {0, 0, 9}, {0, 1, 9}}, 9) == Counts{4, 3, 2});
}

TEST_CASE("weights as large as may be are exact", "[allocators]") {
  const std::int64_t big = (std::int64_t{1} << 52) - 1;
  const std::int64_t rows = (std::int64_t{1} << 31) - 1;
  REQUIRE(divide({{big, 0, rows}, {big, 0, rows}, {big - 1, 0, rows}}, 3 * rows - 1) ==
          Counts{rows, rows, rows - 1});
  std::vector<Quota> many(4096, Quota{big, 0, rows});
  const Counts counts = divide(many, 4096 * std::int64_t{1000000000} + 5);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    REQUIRE(counts[i] == 1000000000 + (i < 5 ? 1 : 0));
  }
}

TEST_CASE("random divisions agree with the real-valued ones", "[allocators]") {
  const Random random(31);
  std::uint64_t at = 0;
  const auto draw = [&](std::int64_t count) { return random.integer(at++, count); };
  for (int round = 0; round < 4000; ++round) {
    std::vector<Quota> quotas;
    std::int64_t lowest = 0;
    std::int64_t highest = 0;
    for (std::int64_t n = 1 + draw(9); n > 0; --n) {
      const std::int64_t low = draw(3) == 0 ? draw(20) : 0;
      const std::int64_t high = low + (draw(2) == 0 ? draw(10) : draw(1000));
      quotas.push_back({1 + (draw(2) == 0 ? draw(5) : draw(100000)), low, high});
      lowest += low;
      highest += high;
    }
    const std::int64_t total = lowest + draw(highest - lowest + 1);
    const Counts counts = divide(quotas, total);
    INFO("round " << round << ", total " << total);
    REQUIRE(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == total);
    const std::vector<double> shares = exact_shares(quotas, static_cast<double>(total));
    // The bisection ends within 1e-13 of t; a share is at most 1e3 weights of 1e5.
    const double rounding = 1e-6;
    double worst_up = 1.0;
    double best_down = 0.0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      REQUIRE(counts[i] >= quotas[i].low);
      REQUIRE(counts[i] <= quotas[i].high);
      const double over = static_cast<double>(counts[i]) - shares[i];
      REQUIRE(std::abs(over) < 1.0 + rounding);
      if (over > rounding) worst_up = std::min(worst_up, 1.0 - over);
      if (over < -rounding) best_down = std::max(best_down, -over);
    }
    // Nobody was rounded up whose remainder is smaller than one that was rounded down.
    REQUIRE(worst_up >= best_down - rounding);
  }
}

TEST_CASE("totals outside the bounds are budget errors", "[allocators]") {
  REQUIRE(refused_budget([] {
            divide({{1, 2, 9}, {1, 2, 9}}, 3);
          }) == "least rows is 4, must be at most the total, 3");
  REQUIRE(refused_budget([] {
            divide({{1, 0, 2}, {1, 0, 2}}, 5);
          }) == "most rows is 4, must be at least the total, 5");
}

}  // namespace largest_remainder_test
