// SPDX-License-Identifier: Apache-2.0
#include "kvevict/math/ordered_key.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "support/random.hpp"

using kvevict::ordered_key;

namespace {

// -1, 0 or 1: the order of scores. NaN below everything and equal to itself; -0 equals +0.
int compare(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) {
    return static_cast<int>(!std::isnan(a)) - static_cast<int>(!std::isnan(b));
  }
  return static_cast<int>(a > b) - static_cast<int>(a < b);
}

int compare_keys(float a, float b) {
  return static_cast<int>(ordered_key(a) > ordered_key(b)) -
         static_cast<int>(ordered_key(a) < ordered_key(b));
}

}  // namespace

TEST_CASE("keys order like scores, pair by pair", "[math][ordered_key]") {
  using limits = std::numeric_limits<float>;
  std::vector<float> values = {0.0f,
                               -0.0f,
                               limits::infinity(),
                               -limits::infinity(),
                               limits::quiet_NaN(),
                               -limits::quiet_NaN(),
                               limits::signaling_NaN(),
                               limits::max(),
                               -limits::max(),
                               limits::min(),
                               -limits::min(),
                               limits::denorm_min(),
                               -limits::denorm_min(),
                               1.0f,
                               -1.0f,
                               std::nextafter(1.0f, 2.0f),
                               std::nextafter(1.0f, 0.0f)};
  const kvevict_test::Random random(1);
  for (std::uint64_t i = 0; i < 800; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.bits(i))));
  }
  for (std::uint64_t i = 800; i < 1200; ++i) {
    values.push_back(static_cast<float>(random.normal(i)));
  }
  int wrong = 0;
  for (const float a : values) {
    for (const float b : values) wrong += compare(a, b) == compare_keys(a, b) ? 0 : 1;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("neighbouring floats have neighbouring keys", "[math][ordered_key]") {
  // So no two different scores share a key; stepping through 2^32 patterns by a large odd number
  // visits all exponents.
  int wrong = 0;
  for (std::uint64_t word = 0; word < (std::uint64_t{1} << 32); word += 65537) {
    const float a = std::bit_cast<float>(static_cast<std::uint32_t>(word));
    const float b = std::nextafter(a, std::numeric_limits<float>::infinity());
    if (std::isnan(a) || a == b || a == 0.0f || b == 0.0f) continue;
    wrong += ordered_key(b) == ordered_key(a) + 1 ? 0 : 1;
  }
  REQUIRE(wrong == 0);
}

TEST_CASE("keys are constant expressions with known values", "[math][ordered_key]") {
  STATIC_REQUIRE(ordered_key(0.0f) == 0x80000000u);
  STATIC_REQUIRE(ordered_key(-0.0f) == 0x80000000u);
  STATIC_REQUIRE(ordered_key(std::numeric_limits<float>::quiet_NaN()) == 0u);
  STATIC_REQUIRE(ordered_key(-std::numeric_limits<float>::infinity()) == 0x007fffffu);
  STATIC_REQUIRE(ordered_key(std::numeric_limits<float>::infinity()) == 0xff800000u);
}
