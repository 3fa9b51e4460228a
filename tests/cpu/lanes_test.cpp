// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/lanes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"

namespace cpu = kvevict::cpu;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::nanf("");

cpu::FloatLanes counting_lanes(float first) {
  std::vector<float> values;
  for (int i = 0; i < cpu::lane_count; ++i) values.push_back(first + static_cast<float>(i));
  return cpu::load_lanes(values.data());
}

std::vector<float> values_of(cpu::FloatLanes lanes) {
  std::vector<float> values(static_cast<std::size_t>(cpu::lane_count));
  cpu::store_lanes(lanes, values.data());
  return values;
}

}  // namespace

TEST_CASE("lanes are chosen by comparisons, one by one", "[cpu][lanes]") {
  const cpu::FloatLanes ascending = counting_lanes(0.0f);
  const cpu::FloatLanes two = cpu::broadcast(2.0f);
  const std::vector<float> larger = values_of(cpu::larger_lanes(ascending, two));
  const std::vector<float> chosen = values_of(cpu::select_lanes(ascending == two, two, -ascending));
  for (std::size_t i = 0; i < larger.size(); ++i) {
    const auto value = static_cast<float>(i);
    REQUIRE(larger[i] == std::max(value, 2.0f));
    REQUIRE(chosen[i] == (value == 2.0f ? 2.0f : -value));
  }
}

TEST_CASE("the larger of NaN and a number is the number behind it", "[cpu][lanes]") {
  REQUIRE(values_of(cpu::larger_lanes(cpu::broadcast(not_a_number), cpu::broadcast(1.0f)))[0] ==
          1.0f);
  REQUIRE(values_of(cpu::larger_lanes(cpu::broadcast(-infinity), cpu::broadcast(-infinity)))[0] ==
          -infinity);
}

TEST_CASE("broadcasts keep infinity, NaN and the sign of zero", "[cpu][lanes]") {
  for (const float value : values_of(cpu::broadcast(-infinity))) REQUIRE(value == -infinity);
  for (const float value : values_of(cpu::broadcast(not_a_number))) REQUIRE(std::isnan(value));
  for (const float value : values_of(cpu::broadcast(-0.0f))) REQUIRE(std::signbit(value));
}

TEST_CASE("lanes become one number", "[cpu][lanes]") {
  const cpu::FloatLanes lanes = counting_lanes(-1.0f);
  const auto n = static_cast<float>(cpu::lane_count);
  REQUIRE(cpu::sum_of_lanes(lanes) == n * (n - 1.0f) / 2.0f - n);
  REQUIRE(cpu::largest_lane(lanes) == n - 2.0f);
  REQUIRE(cpu::largest_lane(-lanes) == 1.0f);
}

TEST_CASE("powers of two are within two units in the last place", "[cpu][lanes]") {
  double worst = 0;
  float where = 0;
  for (const float reference : {0.0f, 7.0f, -1000.0f, 2097151.0f}) {
    const cpu::PowerLanes power(cpu::broadcast(reference));
    for (int i = -5000; i < 1260000; i += static_cast<int>(cpu::lane_count)) {
      const cpu::FloatLanes x = reference - 1e-4f * counting_lanes(static_cast<float>(i));
      const std::vector<float> arguments = values_of(x);
      const std::vector<float> got = values_of(power(x));
      for (std::size_t lane = 0; lane < got.size(); ++lane) {
        const double difference = static_cast<double>(arguments[lane]) - reference;
        if (difference < -126.0 || difference > 0.5) continue;
        const double exact = std::exp2(difference);
        const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
        const double error = std::abs(static_cast<double>(got[lane]) - exact) / unit;
        if (error > worst) {
          worst = error;
          where = arguments[lane];
        }
      }
    }
  }
  INFO("worst " << worst << " at " << where);
  REQUIRE(worst < 2.0);
}

TEST_CASE("powers for two references are an exact power of two apart", "[cpu][lanes]") {
  const cpu::PowerLanes near(cpu::broadcast(3.0f));
  const cpu::PowerLanes far(cpu::broadcast(100.0f));
  for (int i = 0; i < 260; ++i) {
    const cpu::FloatLanes x = 3.4f - 0.1f * counting_lanes(static_cast<float>(i) * 0.37f);
    const std::vector<float> one = values_of(near(x));
    const std::vector<float> other = values_of(far(x));
    for (std::size_t lane = 0; lane < one.size(); ++lane) {
      if (other[lane] == 0.0f) continue;
      REQUIRE(one[lane] == std::ldexp(other[lane], 97));
    }
  }
}

TEST_CASE("powers of two at their ends", "[cpu][lanes]") {
  const auto power = [](float x, float reference) {
    return values_of(cpu::PowerLanes(cpu::broadcast(reference))(cpu::broadcast(x)))[0];
  };
  for (const float reference : {0.0f, -0.0f, 5.0f, -300.0f, 2097152.0f, -3e9f, 3e38f}) {
    INFO("reference " << reference);
    REQUIRE(power(reference, reference) == 1.0f);
    REQUIRE(power(-infinity, reference) == 0.0f);
    REQUIRE(power(-3.4e38f, reference) == 0.0f);
    REQUIRE(std::isnan(power(not_a_number, reference)));
    // The next float below: next to nothing for small references, all for large ones.
    const float below = std::nextafter(reference, -infinity);
    const auto exact = static_cast<float>(std::exp2(static_cast<double>(below) - reference));
    REQUIRE(power(below, reference) == Approx(exact).margin(1e-37));
  }
  REQUIRE(power(-3.0f, 4.0f) == std::ldexp(1.0f, -7));
  REQUIRE(power(-123.0f, 4.0f) == 0.0f);
  REQUIRE(std::isnan(power(infinity, infinity)));
}
