// SPDX-License-Identifier: Apache-2.0
#include "support/selection_compare.hpp"

#include <limits>

#include "catch.hpp"

namespace selection_compare_test {

using namespace kvevict_test;

namespace {
using Rows = std::vector<std::int32_t>;
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
const std::vector<float> scores{5, 3, 3, 3.0000002F, 0.0F, -0.0F, nan_value, nan_value};
}  // namespace

TEST_CASE("equal sets are the same") {
  CHECK(compare_selection(Rows{0, 1}, Rows{0, 1}, scores).same());
  CHECK(compare_selection(Rows{}, Rows{}, scores).same());
}

TEST_CASE("only true ties are forgiven") {
  const SelectionDifference tie = compare_selection(Rows{0, 1}, Rows{0, 2}, scores);
  CHECK(tie.same_up_to_ties());
  CHECK_FALSE(tie.same());
  CHECK(tie.only_got == std::vector<std::int64_t>{1});
  CHECK(tie.only_want == std::vector<std::int64_t>{2});
  CHECK(compare_selection(Rows{4}, Rows{5}, scores).same_up_to_ties());
  CHECK(compare_selection(Rows{6}, Rows{7}, scores).same_up_to_ties());

  CHECK_FALSE(compare_selection(Rows{1}, Rows{3}, scores).same_up_to_ties());
  CHECK_FALSE(compare_selection(Rows{0, 4}, Rows{0, 6}, scores).same_up_to_ties());
  CHECK_FALSE(compare_selection(Rows{1, 4}, Rows{2, 3}, scores).same_up_to_ties());
}

TEST_CASE("sets that are no sets are a problem") {
  CHECK(compare_selection(Rows{1, 0}, Rows{0, 1}, scores).problem ==
        "the first set is not ascending at 1");
  CHECK(compare_selection(Rows{0}, Rows{8}, scores).problem == "the second set holds row 8 of 8");
  CHECK(compare_selection(Rows{0, 0}, Rows{0, 1}, scores).problem ==
        "the first set is not ascending at 1");
  CHECK(compare_selection(Rows{0}, Rows{0, 1}, scores).problem == "sizes 1 and 2");
}

}  // namespace selection_compare_test
