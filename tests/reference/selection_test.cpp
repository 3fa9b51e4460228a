// SPDX-License-Identifier: Apache-2.0
#include "reference/selection.hpp"

#include <limits>
#include <stdexcept>

#include "catch.hpp"
#include "support/random.hpp"

using namespace kvevict_test;
using namespace kvevict_test::reference;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
}  // namespace

TEST_CASE("order: score, then position, NaN last, zeros equal") {
  CHECK(selection_order({1, nan_value, -0.0, 3, 0.0, -infinity, 3, nan_value, infinity}) ==
        Rows{8, 3, 6, 0, 2, 4, 5, 1, 7});
  CHECK(selection_order({}).empty());
}

TEST_CASE("protected rows come first and count") {
  const std::vector<double> scores{1, 5, 2, 4, 3};
  CHECK(select_top(scores, 3, {}) == Rows{1, 3, 4});
  CHECK(select_top(scores, 3, {0}) == Rows{0, 1, 3});
  CHECK(select_top(scores, 2, {0, 2}) == Rows{0, 2});
  CHECK(select_top(scores, 0, {}).empty());
  CHECK_THROWS_AS(select_top(scores, 1, {0, 2}), std::invalid_argument);
  CHECK_THROWS_AS(select_top(scores, 6, {}), std::invalid_argument);
}

TEST_CASE("sinks and spans go by position, recent rows by order") {
  const Positions positions{0, 2, 3, 7, 8, 20};
  CHECK(protected_rows(positions, 3, 1) == Rows{0, 1, 5});
  CHECK(protected_rows(positions, 0, 2, {{2, 4}}) == Rows{1, 2, 4, 5});
  CHECK(protected_rows(positions, 4, 4) == Rows{0, 1, 2, 3, 4, 5});
  CHECK(protected_rows(positions, 0, 0).empty());
  CHECK(protected_rows({}, 4, 4).empty());
}

TEST_CASE("exact budgets follow the decimal that was written") {
  CHECK(exact_kept_rows(100, 0.9) == 10);
  CHECK(exact_kept_rows(10, 0.9) == 1);
  CHECK(exact_kept_rows(5, 0.8) == 1);
  CHECK(exact_kept_rows(90, 0.3) == 63);
  CHECK(exact_kept_rows(1000, 0.8) == 200);
  CHECK(exact_kept_rows(7, 0.5) == 3);
  CHECK(exact_kept_rows(7, 0) == 7);
  CHECK(exact_kept_rows(7, 1) == 0);
  CHECK(exact_kept_rows(0, 0.5) == 0);
  CHECK(exact_kept_rows(100, 1e-300) == 99);
  CHECK(exact_kept_rows(100, 0.999) == 0);
  CHECK(exact_kept_rows(std::int64_t{1} << 40, 0.1) == 989560464998);  // 0.9 * 2^40 = ...998.4
  CHECK_THROWS_AS(exact_kept_rows(10, 1.5), std::invalid_argument);
  CHECK_THROWS_AS(exact_kept_rows(10, nan_value), std::invalid_argument);
}

TEST_CASE("exact budgets equal integer arithmetic for every two-digit ratio") {
  for (std::int64_t rows = 0; rows <= 300; ++rows) {
    for (std::int64_t percent = 0; percent <= 100; ++percent) {
      const double ratio = static_cast<double>(percent) / 100;
      if (exact_kept_rows(rows, ratio) != rows * (100 - percent) / 100) {
        FAIL("rows " << rows << " percent " << percent);
      }
    }
  }
  SUCCEED();
}

TEST_CASE("the arithmetic of kvpress loses a row where binary fractions fall short") {
  CHECK(reference_kept_rows(100, 0.9) == 9);
  CHECK(reference_kept_rows(1000, 0.8) == 199);
  CHECK(reference_kept_rows(90, 0.3) == 62);
  CHECK(reference_kept_rows(5, 0.8) == 1);  // truncates to 0, one row stays
  CHECK(reference_kept_rows(10, 1) == 0);
  CHECK(reference_kept_rows(0, 0.5) == 0);
}

TEST_CASE("global selection is one threshold over all heads") {
  const Scores scores{{9, 1, 8}, {7, 7, 2, 6}};
  CHECK(select_global(scores, 4, {}, 0, 10) == std::vector<Rows>{{0, 2}, {0, 1}});
  CHECK(select_global(scores, 3, {}, 0, 10) == std::vector<Rows>{{0, 2}, {0}});
  CHECK(select_global(scores, 3, {}, 0, 2) == std::vector<Rows>{{0, 2}, {0}});
  CHECK(select_global(scores, 4, {{1}, {}}, 0, 10) == std::vector<Rows>{{0, 1, 2}, {0}});
  CHECK(select_global(scores, 7, {}, 0, 10) == std::vector<Rows>{{0, 1, 2}, {0, 1, 2, 3}});
  CHECK(select_global(scores, 0, {}, 0, 10) == std::vector<Rows>{{}, {}});
}

TEST_CASE("global selection: ties go to the lower head, then to the lower position") {
  const Scores scores{{1, 5, 1}, {1, 1}};
  CHECK(select_global(scores, 3, {}, 0, 10) == std::vector<Rows>{{0, 1, 2}, {}});
  CHECK(select_global(scores, 4, {}, 0, 10) == std::vector<Rows>{{0, 1, 2}, {0}});
}

TEST_CASE("global selection: floor and cap") {
  const Scores scores{{9, 8, 7, 6}, {3, 1}, {2}};
  CHECK(select_global(scores, 4, {}, 1, 10) == std::vector<Rows>{{0, 1}, {0}, {0}});
  CHECK(select_global(scores, 5, {}, 2, 10) == std::vector<Rows>{{0, 1}, {0, 1}, {0}});
  CHECK(select_global(scores, 4, {}, 0, 2) == std::vector<Rows>{{0, 1}, {0}, {0}});
  CHECK_THROWS_AS(select_global(scores, 2, {}, 1, 10), std::invalid_argument);
  CHECK_THROWS_AS(select_global(scores, 6, {}, 0, 2), std::invalid_argument);
}

TEST_CASE("global selection of one head is uniform selection") {
  std::vector<double> scores;
  for (const float value : random_values(Shape::ties, 40, 3)) scores.push_back(value);
  for (std::size_t count = 0; count <= 40; ++count) {
    CHECK(select_global({scores}, count, {}, 0, 40)[0] == select_top(scores, count, {}));
  }
}
