// SPDX-License-Identifier: Apache-2.0
#include "kvevict/allocators/mass.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "allocators/shares_case.hpp"
#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/score_order.hpp"
#include "kvevict/cpu/shared_scores.hpp"

using kvevict::MassBudget;
using namespace kvevict_test;

TEST_CASE("every head keeps the same part of its mass", "[allocators]") {
  const SharesCase given{{{90, 5, 3, 1, 1}, {20, 20, 20, 20, 20}}, {3, 3}};
  // 90 % are one row here and five there.
  REQUIRE(given.divide(MassBudget{}) == Counts{1, 5});
  // Scores of another scale are the same masses.
  const SharesCase scaled{{{90, 5, 3, 1, 1}, {2, 2, 2, 2, 2}}, {3, 3}};
  REQUIRE(scaled.divide(MassBudget{}) == Counts{1, 5});
  REQUIRE(given.divide(MassBudget{.heads_per_group = 1}) == Counts{3, 3});
  REQUIRE(given.divide(MassBudget{.floor = 2}) == Counts{2, 4});
  REQUIRE(given.divide(MassBudget{.cap = 4}) == Counts{2, 4});
}

TEST_CASE("no other counts of the same sum retain more in the head that retains least",
          "[allocators]") {
  // PrefixKV searches the part p by bisection: the counts are those of the largest p that fits.
  const Random random(51);
  std::uint64_t at = 0;
  for (int round = 0; round < for_backend(100, 10); ++round) {
    SharesCase given;
    std::vector<std::vector<double>> retained;  // [head][count]
    for (int h = 0; h < 5; ++h) {
      given.heads.emplace_back();
      const std::int64_t rows = 5 + random.integer(at++, 40);
      for (std::int64_t i = 0; i < rows; ++i) {
        given.heads.back().push_back(static_cast<float>(std::exp(h * random.normal(at++))));
      }
      given.shares.push_back(1 + random.integer(at++, rows));
      std::vector<double> sorted(given.heads.back().begin(), given.heads.back().end());
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      retained.push_back({0.0});
      for (const double mass : sorted) retained.back().push_back(retained.back().back() + mass);
      for (double& mass : retained.back()) mass /= retained.back().back();
    }
    const Counts counts = given.divide(MassBudget{.floor = 0});
    double least = 1.0;
    for (std::size_t h = 0; h < 5; ++h) {
      least = std::min(least, retained[h][static_cast<std::size_t>(counts[h])]);
    }
    // Rows that all heads need for a little more than that are too many.
    std::int64_t needed = 0;
    for (std::size_t h = 0; h < 5; ++h) {
      std::size_t count = 0;
      while (count + 1 < retained[h].size() && retained[h][count] < least + 1e-6) ++count;
      needed += static_cast<std::int64_t>(count);
    }
    std::int64_t total = 0;
    for (const std::int64_t share : given.shares) total += share;
    INFO("round " << round);
    REQUIRE((needed > total || least > 1.0 - 1e-6));
  }
}

TEST_CASE("protected rows count as kept first", "[allocators]") {
  SharesCase given{{{1, 1, 1, 97}, {25, 25, 25, 25}}, {2, 2}};
  given.protect = {.recent = 1};
  REQUIRE(given.divide(MassBudget{}) == Counts{1, 3});
  given.protect = {.recent = 2};
  REQUIRE(given.divide(MassBudget{}) == Counts{2, 2});
}

TEST_CASE("mass budgets that cannot be are refused", "[allocators]") {
  const SharesCase given{{{1, 2}, {3, 4}}, {1, 1}};
  REQUIRE(refused([&] { given.divide(MassBudget{.heads_per_group = 3}); }) ==
          "heads_per_group is 3, must be a divisor of the heads, 2");
  REQUIRE(refused([&] { given.divide(MassBudget{.floor = -1}); }) == "floor is -1, must be >= 0");
  REQUIRE(refused_budget([&] { given.divide(MassBudget{.floor = 2}); }) ==
          "protected rows and floors is 4, must be at most the budget's rows, 2");
}
