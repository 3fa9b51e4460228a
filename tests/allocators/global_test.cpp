// SPDX-License-Identifier: Apache-2.0
#include "kvevict/allocators/global.hpp"

#include <numeric>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "support/backend.hpp"

namespace global_test {

using kvevict::AllocationInput;
using kvevict::GlobalBudget;
using kvevict::RowLayout;
using kvevict_test::refused;
using kvevict_test::refused_budget;

namespace {

struct Shares {
  std::vector<float> scores = {9, 8, 7, 6, 1, 1, 1, 1, 5, 1, 1, 1};
  std::vector<std::int64_t> shares = {2, 2, 2};
  bool comparable = true;
  kvevict::Protect protect = {};

  std::vector<std::int64_t> divide(const GlobalBudget& budget) {
    kvevict_test::TestResources res({.threads = 1});
    std::vector<std::int64_t> counts(3, -1);
    const AllocationInput<> input{
        {scores.data(), RowLayout<>::uniform(3, 4)}, {}, protect, shares.data(), comparable};
    budget.allocate(res, input, counts.data());
    return counts;
  }
};

using Counts = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("the total is that of the shares, divided by the scores", "[allocators]") {
  Shares shares;
  REQUIRE(shares.divide({}) == Counts{4, 1, 1});
  shares.shares = {1, 0, 4};
  REQUIRE(shares.divide({}) == Counts{3, 1, 1});
  shares.shares = {4, 4, 4};
  REQUIRE(shares.divide({}) == Counts{4, 4, 4});
}

TEST_CASE("floors and caps hold for every head", "[allocators]") {
  Shares shares;
  REQUIRE(shares.divide({.floor = 0}) == Counts{4, 1, 1});
  shares.shares = {5, 0, 0};
  REQUIRE(shares.divide({.floor = 0}) == Counts{4, 0, 1});
  shares.shares = {2, 2, 2};
  REQUIRE(shares.divide({.floor = 2}) == Counts{2, 2, 2});
  REQUIRE(shares.divide({.floor = 1, .cap = 3}) == Counts{3, 2, 1});
  shares.protect = {.recent = 2};
  REQUIRE(shares.divide({}) == Counts{2, 2, 2});
  shares.shares = {3, 2, 2};
  REQUIRE(shares.divide({}) == Counts{3, 2, 2});
}

TEST_CASE("a budget of zero rows needs no floor", "[allocators]") {
  Shares shares;
  shares.shares = {0, 0, 0};
  REQUIRE(shares.divide({}) == Counts{0, 0, 0});
  // With something to divide the floor must fit.
  shares.shares = {2, 0, 0};
  REQUIRE(refused_budget([&] { shares.divide({}); }) ==
          "protected rows and floors is 3, must be at most the budget's rows, 2");
}

TEST_CASE("scores that mean nothing across heads are refused, unless allowed", "[allocators]") {
  Shares shares;
  shares.comparable = false;
  REQUIRE(
      refused([&] { shares.divide({}); }, kvevict::ErrorKind::unsupported) ==
      "GlobalBudget.allow_incomparable is false, must be true for a policy whose scores are not "
      "comparable across heads");
  REQUIRE(shares.divide({.allow_incomparable = true}) == Counts{4, 1, 1});
}

TEST_CASE("budgets that cannot be met are budget errors", "[allocators]") {
  Shares shares;
  REQUIRE(refused_budget([&] { shares.divide({.floor = 3}); }) ==
          "protected rows and floors is 9, must be at most the budget's rows, 6");
  REQUIRE(refused_budget([&] { shares.divide({.floor = 1, .cap = 1}); }) ==
          "rows within the caps is 3, must be at least the budget's rows, 6");
  REQUIRE(refused([&] { shares.divide({.floor = -1}); }) == "floor is -1, must be >= 0");
  REQUIRE(refused([&] { shares.divide({.floor = 3, .cap = 2}); }) ==
          "cap is 2, must be >= floor, 3");
}

TEST_CASE("global budgets are values", "[allocators]") {
  REQUIRE(GlobalBudget{} == GlobalBudget{.floor = 1});
  REQUIRE_FALSE(GlobalBudget{} == GlobalBudget{.floor = 2});
}

}  // namespace global_test
