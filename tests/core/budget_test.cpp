// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/budget.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "reference/selection.hpp"
#include "support/random.hpp"

namespace budget_test {

using kvevict::Budget;
using kvevict::Rounding;
using kvevict::RowLayout;
using kvevict_test::Random;
using kvevict_test::refused;
using kvevict_test::refused_budget;

namespace {

std::int64_t kept(std::int64_t rows, double ratio) {
  return Budget::evict_ratio(ratio).kept_rows(rows);
}

std::vector<std::int64_t> shares(const Budget& budget, const RowLayout<>& layout,
                                 std::int64_t row_bytes) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(layout.heads()), -1);
  budget.shares(layout, row_bytes, out.data());
  return out;
}

// floor(rows (1 - k / scale)) in integers, at least one row unless everything is evicted.
std::int64_t kept_of_decimal(std::int64_t rows, std::int64_t k, std::int64_t scale) {
  const std::int64_t floor = rows * (scale - k) / scale;
  return k < scale && rows > 0 ? std::max<std::int64_t>(floor, 1) : floor;
}

}  // namespace

TEST_CASE("evicted ratios are decimals, exact for every N", "[core][budget]") {
  // Every ratio of three decimals with every N, and of four decimals with every seventh N.
  std::int64_t wrong = 0;
  for (std::int64_t k = 0; k <= 1000; ++k) {
    const Budget budget = Budget::evict_ratio(static_cast<double>(k) / 1000.0);
    for (std::int64_t n = 0; n <= 2000; ++n) {
      wrong += budget.kept_rows(n) == kept_of_decimal(n, k, 1000) ? 0 : 1;
    }
  }
  REQUIRE(wrong == 0);
  for (std::int64_t k = 0; k <= 10000; ++k) {
    const Budget budget = Budget::evict_ratio(static_cast<double>(k) / 10000.0);
    for (std::int64_t n = k % 7; n <= 2000; n += 7) {
      wrong += budget.kept_rows(n) == kept_of_decimal(n, k, 10000) ? 0 : 1;
    }
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("the two roundings differ where binary fractions do", "[core][budget]") {
  REQUIRE(kept(100, 0.9) == 10);
  REQUIRE(Budget::evict_ratio(0.9).with_rounding(Rounding::reference).kept_rows(100) == 9);
  // A sum that is not the decimal it looks like is taken for what it is: 0.30000000000000004.
  REQUIRE(kept(10, 0.3) == 7);
  REQUIRE(kept(10, 0.1 + 0.2) == 6);
  // A ratio that passed through float carries the float's error: 0.9f is 0.89999998.
  REQUIRE(kept(1000, static_cast<double>(0.9f)) == 100);
  REQUIRE(kept(1000, static_cast<double>(0.7f)) == 300);
  REQUIRE(kept(1000, static_cast<double>(0.8f)) == 199);
}

TEST_CASE("reference rounding is the formula in double", "[core][budget]") {
  std::int64_t wrong = 0;
  for (std::int64_t k = 0; k <= 1000; ++k) {
    const double ratio = static_cast<double>(k) / 1000.0;
    const Budget budget = Budget::evict_ratio(ratio).with_rounding(Rounding::reference);
    for (std::int64_t n = 0; n <= 2000; n += 3) {
      const auto formula = static_cast<std::int64_t>(static_cast<double>(n) * (1.0 - ratio));
      const std::int64_t least = k < 1000 && n > 0 ? 1 : 0;
      wrong += budget.kept_rows(n) == std::max(formula, least) ? 0 : 1;
    }
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("any double is rounded exactly", "[core][budget]") {
  // Against another algorithm over the same decimal, digit by digit.
  const Random random(5);
  constexpr std::int64_t sizes[] = {1, 2, 999, 4096, 131072, 1000003, 2147483647};
  for (std::uint64_t i = 0; i < 3000; ++i) {
    const double uniform = random.uniform(2 * i);
    const double scale = std::pow(10.0, -static_cast<double>(random.integer(2 * i + 1, 14)));
    for (const double ratio : {uniform, uniform * scale, 1.0 - uniform * scale}) {
      for (const std::int64_t n : sizes) {
        INFO("N " << n << ", ratio " << ratio);
        const std::int64_t exact = kvevict_test::reference::exact_kept_rows(n, ratio);
        REQUIRE(kept(n, ratio) == std::max<std::int64_t>(exact, ratio < 1.0 ? 1 : 0));
      }
    }
  }
}

TEST_CASE("extreme ratios", "[core][budget]") {
  for (const double tiny : {1e-300, 5e-324, 1e-27, 1e-26, 1e-12}) {
    INFO("ratio " << tiny);
    REQUIRE(kept(1000, tiny) == 999);
    REQUIRE(kept(2147483647, tiny) == 2147483646);
    REQUIRE(kept(1, tiny) == 1);
    REQUIRE(kept(0, tiny) == 0);
  }
  const double nearly_all = 1.0 - 0x1p-53;
  REQUIRE(kept(1000, nearly_all) == 1);
  REQUIRE(kept(2147483647, nearly_all) == 1);
  REQUIRE(kept(0, nearly_all) == 0);
  REQUIRE(kept(1000, 0.0) == 1000);
  REQUIRE(kept(1000, -0.0) == 1000);
  REQUIRE(kept(1000, 1.0) == 0);
  REQUIRE(kept(1, 0.999) == 1);
}

TEST_CASE("row budgets cap each head", "[core][budget]") {
  const std::vector<std::int64_t> offsets = {0, 3, 3, 10};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  REQUIRE(shares(Budget::rows(5), layout, 8) == std::vector<std::int64_t>{3, 0, 5});
  REQUIRE(shares(Budget::rows(0), layout, 8) == std::vector<std::int64_t>{0, 0, 0});
  REQUIRE(shares(Budget::rows(100), layout, 8) == std::vector<std::int64_t>{3, 0, 7});
  REQUIRE(shares(Budget::evict_ratio(0.5), layout, 8) == std::vector<std::int64_t>{1, 0, 3});
  REQUIRE(shares(Budget::evict_ratio(0.99), layout, 8) == std::vector<std::int64_t>{1, 0, 1});
  REQUIRE(shares(Budget::evict_ratio(1), layout, 8) == std::vector<std::int64_t>{0, 0, 0});
}

TEST_CASE("bytes are shared equally, exactly and at the price of a row", "[core][budget]") {
  const Random random(8);
  std::uint64_t next = 0;
  for (int round = 0; round < 500; ++round) {
    const std::int64_t heads = 1 + random.integer(next++, 6);
    std::vector<std::int64_t> offsets = {0};
    for (std::int64_t h = 0; h < heads; ++h) {
      offsets.push_back(offsets.back() + random.integer(next++, 12));
    }
    const auto layout = RowLayout<>::ragged(offsets.data(), heads);
    const std::int64_t row_bytes = 1 + random.integer(next++, 100);
    std::int64_t holding = 0;
    for (std::int64_t h = 0; h < heads; ++h) holding += layout.rows(h) > 0 ? 1 : 0;
    for (std::int64_t total = holding; total <= layout.total() + 3; ++total) {
      // One row at a time, round after round, to the heads that still have rows.
      std::vector<std::int64_t> expected(static_cast<std::size_t>(heads), 0);
      std::int64_t left = std::min(total, layout.total());
      while (left > 0) {
        for (std::int64_t h = 0; h < heads && left > 0; ++h) {
          auto& share = expected[static_cast<std::size_t>(h)];
          const std::int64_t lowest_open = [&] {
            std::int64_t level = std::numeric_limits<std::int64_t>::max();
            for (std::int64_t g = 0; g < heads; ++g) {
              const std::int64_t held = expected[static_cast<std::size_t>(g)];
              if (held < layout.rows(g)) level = std::min(level, held);
            }
            return level;
          }();
          if (share < layout.rows(h) && share == lowest_open) {
            ++share;
            --left;
          }
        }
      }
      // Bytes short of one more row buy nothing.
      const std::int64_t change = random.integer(next++, row_bytes);
      INFO("round " << round << ", rows " << total << ", row bytes " << row_bytes);
      REQUIRE(shares(Budget::bytes(total * row_bytes + change), layout, row_bytes) == expected);
      REQUIRE(std::accumulate(expected.begin(), expected.end(), std::int64_t{0}) ==
              std::min(total, layout.total()));
    }
  }
}

TEST_CASE("a byte budget below one row of each head is an error, zero is not", "[core][budget]") {
  const std::vector<std::int64_t> offsets = {0, 3, 3, 10};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  REQUIRE(refused_budget([&] { shares(Budget::bytes(199), layout, 100); }) ==
          "budget.bytes is 199, must be enough for one row of each head, 200");
  REQUIRE(shares(Budget::bytes(200), layout, 100) == std::vector<std::int64_t>{1, 0, 1});
  REQUIRE(shares(Budget::bytes(0), layout, 100) == std::vector<std::int64_t>{0, 0, 0});
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  REQUIRE(shares(Budget::bytes(most), layout, 100) == std::vector<std::int64_t>{3, 0, 7});
  REQUIRE(shares(Budget::bytes(100), RowLayout<>(), 0).empty());
}

TEST_CASE("bad budgets are refused with their bounds", "[core][budget]") {
  REQUIRE(refused([] { Budget::rows(-1); }) == "budget.rows is -1, must be >= 0");
  REQUIRE(refused([] { Budget::bytes(-8); }) == "budget.bytes is -8, must be >= 0");
  REQUIRE(refused([] { Budget::evict_ratio(-0.25); }) ==
          "budget.evict_ratio is -0.25, must be in [0, 1]");
  REQUIRE(refused([] { Budget::evict_ratio(1.5); }) ==
          "budget.evict_ratio is 1.5, must be in [0, 1]");
  REQUIRE(refused([] { Budget::evict_ratio(std::nan("")); }) ==
          "budget.evict_ratio is nan, must be in [0, 1]");
}

}  // namespace budget_test
