// SPDX-License-Identifier: Apache-2.0
#include "kvevict/math/exponential.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "support/random.hpp"

using kvevict::exp_nonpositive;

namespace {

// Distance from the exact value in units in the last place of the result.
double error_in_ulp(float x) {
  const double exact = std::exp(static_cast<double>(x));
  const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
  return std::abs(static_cast<double>(exp_nonpositive(x)) - exact) / unit;
}

// Never inlined, so never part of a vector.
[[gnu::noinline]] float one_at_a_time(float x) { return exp_nonpositive(x); }

}  // namespace

TEST_CASE("the exponential is within two units in the last place", "[math][exponential]") {
  double worst = 0;
  float where = 0;
  const auto check = [&](float x) {
    const double error = error_in_ulp(x);
    if (error > worst) {
      worst = error;
      where = x;
    }
  };
  for (int i = 0; i <= 873000; ++i) check(static_cast<float>(-1e-4 * i));
  const kvevict_test::Random random(2);
  for (std::uint64_t i = 0; i < 300000; ++i) {
    check(static_cast<float>(-std::exp(random.uniform(i, -30.0, std::log(87.3)))));
  }
  // Where the rounding to a multiple of ln 2 turns.
  for (int n = 0; n < 125; ++n) {
    const float turn = static_cast<float>(-(n + 0.5) * 0.6931471805599453);
    check(turn);
    check(std::nextafter(turn, 0.0f));
    check(std::nextafter(turn, -100.0f));
  }
  INFO("worst " << worst << " at " << where);
  REQUIRE(worst < 2.0);
}

TEST_CASE("the exponential of zero is one, and nothing exceeds it", "[math][exponential]") {
  REQUIRE(exp_nonpositive(0.0f) == 1.0f);
  REQUIRE(exp_nonpositive(-0.0f) == 1.0f);
  REQUIRE(exp_nonpositive(-std::numeric_limits<float>::denorm_min()) == 1.0f);
  int above = 0;
  for (int i = 0; i <= 100000; ++i) {
    above += exp_nonpositive(static_cast<float>(-1e-5 * i)) > 1.0f ? 1 : 0;
  }
  REQUIRE(above == 0);
}

TEST_CASE("below -87.3 the exponential is zero", "[math][exponential]") {
  REQUIRE(exp_nonpositive(-87.3f) >= std::numeric_limits<float>::min());
  REQUIRE(exp_nonpositive(std::nextafter(-87.3f, -100.0f)) == 0.0f);
  REQUIRE(exp_nonpositive(-88.0f) == 0.0f);
  REQUIRE(exp_nonpositive(-1e30f) == 0.0f);
  REQUIRE(exp_nonpositive(-std::numeric_limits<float>::max()) == 0.0f);
  REQUIRE(exp_nonpositive(-std::numeric_limits<float>::infinity()) == 0.0f);
}

TEST_CASE("the exponential of NaN is NaN", "[math][exponential]") {
  REQUIRE(std::isnan(exp_nonpositive(std::numeric_limits<float>::quiet_NaN())));
  REQUIRE(std::isnan(exp_nonpositive(-std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("one value for one argument wherever it stands in a vector", "[math][exponential]") {
  const kvevict_test::Random random(4);
  std::vector<float> x(67);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(random.uniform(i, -95.0, 0.0));
  }
  x[10] = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t end = begin; end <= x.size(); ++end) {
      std::vector<float> y(x.begin() + static_cast<std::ptrdiff_t>(begin),
                           x.begin() + static_cast<std::ptrdiff_t>(end));
      for (float& value : y) value = exp_nonpositive(value);
      for (std::size_t i = begin; i < end; ++i) {
        const float alone = one_at_a_time(x[i]);
        const bool same = y[i - begin] == alone || (std::isnan(alone) && std::isnan(y[i - begin]));
        INFO("from " << begin << " to " << end << " at " << i);
        REQUIRE(same);
      }
    }
  }
}
