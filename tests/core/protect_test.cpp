// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/protect.hpp"

#include <cstdint>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "support/random.hpp"

namespace protect_test {

using kvevict::most_protected;
using kvevict::PositionRow;
using kvevict::PositionSpan;
using kvevict::Protect;
using kvevict::require_valid;
using kvevict_test::Random;
using kvevict_test::refused;

namespace {

// Which rows are protected, from the definition.
std::vector<bool> by_definition(const Protect& protect, const PositionRow<>& positions,
                                std::int64_t rows) {
  std::vector<bool> kept;
  for (std::int64_t i = 0; i < rows; ++i) {
    bool keep = positions[i] < protect.sinks || i >= rows - protect.recent;
    for (const PositionSpan& span : protect.spans) {
      keep = keep || (positions[i] >= span.begin && positions[i] < span.end);
    }
    kept.push_back(keep);
  }
  return kept;
}

// The same from the ranges; also checks that they ascend, are disjoint and not empty.
std::vector<bool> by_ranges(const Protect& protect, const PositionRow<>& positions,
                            std::int64_t rows) {
  std::vector<bool> kept(static_cast<std::size_t>(rows), false);
  std::int64_t done = 0;
  for_each_protected_range(protect, positions, rows, [&](std::int64_t begin, std::int64_t end) {
    REQUIRE(begin >= done);
    REQUIRE(end > begin);
    REQUIRE(end <= rows);
    for (std::int64_t i = begin; i < end; ++i) kept[static_cast<std::size_t>(i)] = true;
    done = end;
  });
  return kept;
}

void check(const Protect& protect, const PositionRow<>& positions, std::int64_t rows) {
  const std::vector<bool> expected = by_definition(protect, positions, rows);
  REQUIRE(by_ranges(protect, positions, rows) == expected);
  std::int64_t count = 0;
  for (const bool keep : expected) count += keep ? 1 : 0;
  REQUIRE(count_protected(protect, positions, rows) == count);
  REQUIRE(most_protected(protect, rows) >= count);
}

const PositionRow<> from_zero{};

}  // namespace

TEST_CASE("sinks are named by position, recent rows by order", "[core][protect]") {
  const std::vector<std::int32_t> holes = {2, 3, 9, 10, 30};
  const PositionRow<> positions{holes.data(), 0};
  // Positions 0 and 1 were evicted before: the sinks below 4 are two rows, not four.
  REQUIRE(count_protected({.sinks = 4}, positions, 5) == 2);
  REQUIRE(count_protected({.recent = 2}, positions, 5) == 2);
  REQUIRE(by_ranges({.recent = 2}, positions, 5) ==
          std::vector<bool>{false, false, false, true, true});
  const PositionSpan span[] = {{9, 30}};
  REQUIRE(by_ranges({.spans = span}, positions, 5) ==
          std::vector<bool>{false, false, true, true, false});
}

TEST_CASE("rules that overlap count once", "[core][protect]") {
  check({.sinks = 4, .recent = 8}, from_zero, 10);
  check({.sinks = 10, .recent = 10}, from_zero, 10);
  const PositionSpan spans[] = {{2, 5}, {4, 7}, {2, 3}, {6, 6}, {-5, 1}, {8, 100}};
  check({.spans = spans}, from_zero, 12);
  check({.sinks = 3, .recent = 3, .spans = spans}, from_zero, 12);
}

TEST_CASE("rules that name no row protect nothing", "[core][protect]") {
  const PositionSpan outside[] = {{100, 200}, {-20, -10}, {5, 5}};
  REQUIRE(count_protected({.spans = outside}, from_zero, 10) == 0);
  REQUIRE(count_protected({}, from_zero, 10) == 0);
  REQUIRE(count_protected({.sinks = 4, .recent = 4, .spans = outside}, from_zero, 0) == 0);
}

TEST_CASE("rules larger than the head protect all of it", "[core][protect]") {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  REQUIRE(count_protected({.sinks = huge}, from_zero, 10) == 10);
  REQUIRE(count_protected({.recent = huge}, from_zero, 10) == 10);
  const PositionSpan all[] = {
      {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}};
  REQUIRE(count_protected({.spans = all}, from_zero, 10) == 10);
}

TEST_CASE("random rules agree with the definition", "[core][protect]") {
  const Random random(3);
  std::uint64_t next = 0;
  const auto draw = [&](std::int64_t count) { return random.integer(next++, count); };
  for (int round = 0; round < 4000; ++round) {
    const std::int64_t rows = draw(14);
    std::vector<std::int32_t> holes;
    std::int32_t position = static_cast<std::int32_t>(draw(4));
    for (std::int64_t i = 0; i < rows; ++i) {
      holes.push_back(position);
      position += static_cast<std::int32_t>(1 + draw(4));
    }
    std::vector<PositionSpan> spans;
    for (std::int64_t s = draw(5); s > 0; --s) {
      const auto begin = static_cast<std::int32_t>(draw(40) - 4);
      spans.push_back({begin, begin + static_cast<std::int32_t>(draw(12))});
    }
    const Protect protect{.sinks = draw(20), .recent = draw(6), .spans = spans};
    INFO("round " << round);
    check(protect, {holes.data(), 0}, rows);
    check(protect, {nullptr, static_cast<std::int32_t>(draw(10))}, rows);
  }
}

TEST_CASE("how many rows rules protect at most is known without positions", "[core][protect]") {
  REQUIRE(most_protected({}, 10) == 0);
  REQUIRE(most_protected({.sinks = 4}, 10) == 4);
  REQUIRE(most_protected({.recent = 3}, 10) == 3);
  const PositionSpan spans[] = {{2, 4}, {100, 101}, {7, 7}};
  REQUIRE(most_protected({.spans = spans}, 10) == 3);
  // Rules may name the same rows, and positions tell which: the bound is the sum.
  REQUIRE(most_protected({.sinks = 2, .recent = 3, .spans = spans}, 10) == 8);
  // Never more than there are.
  REQUIRE(most_protected({.sinks = 2, .recent = 3, .spans = spans}, 6) == 6);
  REQUIRE(most_protected({.sinks = 4, .recent = 4}, 0) == 0);
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  REQUIRE(most_protected({.sinks = huge, .recent = huge}, 10) == 10);
  const PositionSpan all[] = {
      {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}};
  REQUIRE(most_protected({.recent = huge, .spans = all}, 10) == 10);
}

TEST_CASE("bad rules are refused with their bounds", "[core][protect]") {
  REQUIRE(refused([] { require_valid({.sinks = -1}); }) == "protect.sinks is -1, must be >= 0");
  REQUIRE(refused([] { require_valid({.recent = -2}); }) == "protect.recent is -2, must be >= 0");
  const PositionSpan backwards[] = {{3, 9}, {7, 6}};
  REQUIRE(refused([&] { require_valid({.spans = backwards}); }) ==
          "protect.spans.end is 6, must be >= begin, 7");
  const PositionSpan fine[] = {{7, 7}};
  REQUIRE_NOTHROW(require_valid({.sinks = 0, .recent = 0, .spans = fine}));
}

}  // namespace protect_test
