// SPDX-License-Identifier: Apache-2.0
#include "support/tolerance.hpp"

#include <limits>
#include <vector>

#include "catch.hpp"

namespace tolerance_test {

using namespace kvevict_test;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
}  // namespace

TEST_CASE("a comparison reports the element that uses most of its tolerance") {
  const std::vector<double> want{100, 1, -2};
  const std::vector<double> got{100.5, 1.02, -2};
  const Comparison loose = compare(got, want, {0.01, 0.02});
  CHECK(loose.within());
  CHECK(loose.worst_index == 1);  // 0.02 of 0.03, against 0.5 of 1.02
  CHECK(loose.used() == Approx(2.0 / 3.0));

  const Comparison tight = compare(got, want, {0.001, 0});
  CHECK_FALSE(tight.within());
  CHECK(tight.outside == 2);
  CHECK(tight.worst_index == 1);
  CHECK(tight.describe() ==
        "2 of 3 outside; worst at 1: got 1.02, want 1, error 0.02, allowed 0.001");
}

TEST_CASE("exact means equal, with both zeros the same") {
  CHECK(compare(std::vector<float>{0.0F}, std::vector<float>{-0.0F}, tolerance::exact).within());
  CHECK_FALSE(
      compare(std::vector<double>{1 + 1e-15}, std::vector<double>{1}, tolerance::exact).within());
}

TEST_CASE("NaN and infinities compare by kind, whatever the tolerance") {
  const Tolerance wide{1, 1e30};
  const auto one = [&wide](double got, double want) {
    return compare(std::vector<double>{got}, std::vector<double>{want}, wide).within();
  };
  CHECK(one(nan_value, nan_value));
  CHECK(one(infinity, infinity));
  CHECK_FALSE(one(infinity, -infinity));
  CHECK_FALSE(one(nan_value, 0));
  CHECK_FALSE(one(0, nan_value));
  CHECK_FALSE(one(infinity, 0));
  CHECK_FALSE(one(0, infinity));
}

TEST_CASE("ranges of different size never agree") {
  const Comparison comparison = compare(std::vector<int>{1}, std::vector<int>{1, 2}, {1, 1});
  CHECK_FALSE(comparison.within());
  CHECK(comparison.describe() == "sizes differ: got 1, want 2");
  CHECK(compare(std::vector<int>{}, std::vector<int>{}, tolerance::exact).within());
}

}  // namespace tolerance_test
