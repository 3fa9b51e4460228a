// SPDX-License-Identifier: Apache-2.0
#include "kvevict/allocators/spread.hpp"

#include <vector>

#include "allocators/shares_case.hpp"
#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/score_spread.hpp"
#include "kvevict/cpu/shared_scores.hpp"

using kvevict::Spread;
using kvevict::SpreadBudget;
using namespace kvevict_test;

TEST_CASE("heads keep rows in proportion to their spread", "[allocators]") {
  // One, two and four equal scores among zeros: effective rows by either measure.
  const SharesCase given{
      {{0, 5, 0, 0, 0, 0, 0, 0}, {0, 3, 0, 0, 3, 0, 0, 0}, {1, 1, 0, 0, 1, 0, 1, 0}}, {3, 3, 1}};
  for (const Spread spread : {Spread::entropy, Spread::variance}) {
    REQUIRE(given.divide(SpreadBudget{.spread = spread}) == Counts{1, 2, 4});
    REQUIRE(given.divide(SpreadBudget{.spread = spread, .cap = 3}) == Counts{1, 3, 3});
    REQUIRE(given.divide(SpreadBudget{.spread = spread, .floor = 2}) == Counts{2, 2, 3});
    REQUIRE(given.divide(SpreadBudget{.spread = spread, .heads_per_group = 1}) == given.shares);
  }
}

TEST_CASE("entropy and variance differ on scores with a tail", "[allocators]") {
  SharesCase given{{{64, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {8, 8, 8, 0, 0, 0, 0, 0, 0, 0}}, {4, 4}};
  // Entropy sees the tail: 1.92 and 3 effective rows; variance does not: 1.30 and 3.
  REQUIRE(given.divide(SpreadBudget{.spread = Spread::entropy}) == Counts{3, 5});
  REQUIRE(given.divide(SpreadBudget{.spread = Spread::variance}) == Counts{2, 6});
}

TEST_CASE("protected rows are kept within a spread budget", "[allocators]") {
  SharesCase given = SharesCase::random(6, 40, 10, 2);
  given.protect = {.sinks = 4, .recent = 5};
  const Counts counts = given.divide(SpreadBudget{});
  for (const std::int64_t count : counts) REQUIRE(count >= 9);
}

TEST_CASE("spread budgets that cannot be are refused", "[allocators]") {
  const SharesCase given{{{1, 2}, {3, 4}}, {1, 1}};
  REQUIRE(refused([&] { given.divide(SpreadBudget{.heads_per_group = 3}); }) ==
          "heads_per_group is 3, must be a divisor of the heads, 2");
  REQUIRE(refused([&] { given.divide(SpreadBudget{.floor = 2, .cap = 1}); }) ==
          "cap is 1, must be >= floor, 2");
  REQUIRE(refused_budget([&] { given.divide(SpreadBudget{.floor = 2}); }) ==
          "protected rows and floors is 4, must be at most the budget's rows, 2");
}
