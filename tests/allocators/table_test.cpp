// SPDX-License-Identifier: Apache-2.0
#include "kvevict/allocators/table.hpp"

#include <cmath>
#include <numeric>
#include <vector>

#include "allocators/shares_case.hpp"
#include "catch.hpp"
#include "core/errors.hpp"

using kvevict::TableBudget;
using namespace kvevict_test;

TEST_CASE("heads keep rows in the proportions of the table", "[allocators]") {
  const SharesCase given = SharesCase::random(4, 100, 50, 1);
  const std::vector<double> keep = {0.8, 0.6, 0.4, 0.2};
  REQUIRE(given.divide(TableBudget{.keep = keep}) == Counts{80, 60, 40, 20});
  SharesCase half = given;
  half.shares.assign(4, 25);
  REQUIRE(half.divide(TableBudget{.keep = keep}) == Counts{40, 30, 20, 10});
  // Groups divide their own.
  REQUIRE(given.divide(TableBudget{.keep = keep, .heads_per_group = 2}) == Counts{57, 43, 67, 33});
}

TEST_CASE("a budget of the table's own size gives LU-KV's counts", "[allocators]") {
  const Random random(7);
  std::uint64_t at = 0;
  for (int round = 0; round < 200; ++round) {
    SharesCase given;
    std::vector<double> keep;
    std::vector<double> wanted;
    for (std::int64_t h = 0; h < 9; ++h) {
      const auto rows = static_cast<std::size_t>(50 + random.integer(at++, 200));
      given.heads.emplace_back(rows, 0.0f);
      keep.push_back(random.uniform(at++, 0.02, 1.0));
      wanted.push_back(keep.back() * static_cast<double>(rows));
    }
    // The recipe: round the sum, round every head down, and give the rest to the largest
    // remainders.
    const auto total = std::llround(std::accumulate(wanted.begin(), wanted.end(), 0.0));
    Counts counts;
    std::int64_t left = total;
    for (const double w : wanted) {
      counts.push_back(static_cast<std::int64_t>(w));
      left -= counts.back();
    }
    for (; left > 0; --left) {
      std::size_t best = 0;
      for (std::size_t h = 1; h < 9; ++h) {
        if (wanted[h] - static_cast<double>(counts[h]) >
            wanted[best] - static_cast<double>(counts[best])) {
          best = h;
        }
      }
      ++counts[best];
    }
    given.shares.assign(9, total / 9);
    given.shares[0] += total % 9;
    const Counts got = given.divide(TableBudget{.keep = keep});
    // The recipe leaves the half row by which the sum was rounded where it is; here every head
    // is scaled by it. Counts differ by one row where remainders are nearly equal.
    std::int64_t apart = 0;
    for (std::size_t h = 0; h < 9; ++h) apart += std::abs(got[h] - counts[h]);
    REQUIRE(apart <= 2);
  }
}

TEST_CASE("floors, caps and protected rows stand above the table", "[allocators]") {
  SharesCase given = SharesCase::random(3, 100, 20, 1);
  const std::vector<double> keep = {1.0, 1.0, 0.0};
  REQUIRE(given.divide(TableBudget{.keep = keep}) == Counts{30, 29, 1});
  REQUIRE(given.divide(TableBudget{.keep = keep, .floor = 0}) == Counts{30, 30, 0});
  REQUIRE(given.divide(TableBudget{.keep = keep, .cap = 25}) == Counts{25, 25, 10});
  given.protect = {.sinks = 4, .recent = 3};
  REQUIRE(given.divide(TableBudget{.keep = keep}) == Counts{27, 26, 7});
}

TEST_CASE("ratios choose a row of a table of per cents", "[allocators]") {
  REQUIRE(TableBudget::row_of_ratio(0.5) == 49);
  REQUIRE(TableBudget::row_of_ratio(0.125) == 11);  // 12.5 rounds to even
  REQUIRE(TableBudget::row_of_ratio(0.0) == 0);
  REQUIRE(TableBudget::row_of_ratio(1.0) == 98);
}

TEST_CASE("tables that cannot be are refused", "[allocators]") {
  const SharesCase given = SharesCase::random(3, 10, 2, 1);
  const std::vector<double> two = {0.5, 0.5};
  const std::vector<double> above = {0.5, 1.5, 0.5};
  const std::vector<double> nan = {0.5, 0.5, NAN};
  const std::vector<double> fine = {0.5, 0.5, 0.5};
  REQUIRE(refused([&] { given.divide(TableBudget{.keep = two}); }) ==
          "keep.size is 2, must be equal to the heads, 3");
  REQUIRE(refused([&] { given.divide(TableBudget{.keep = above}); }) ==
          "keep of head 1 is 1.5, must be from 0 to 1");
  REQUIRE(refused([&] { given.divide(TableBudget{.keep = nan}); }) ==
          "keep of head 2 is nan, must be from 0 to 1");
  REQUIRE(refused([&] { given.divide(TableBudget{.keep = fine, .heads_per_group = 2}); }) ==
          "heads_per_group is 2, must be a divisor of the heads, 3");
  REQUIRE(refused_budget([&] { given.divide(TableBudget{.keep = fine, .floor = 3}); }) ==
          "protected rows and floors is 9, must be at most the budget's rows, 6");
}
