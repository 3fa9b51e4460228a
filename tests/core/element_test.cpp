// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/element.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "catch.hpp"
#include "support/random.hpp"

using kvevict::bfloat16;
using kvevict::half;

namespace {

// A binary format with a sign bit, as IEEE 754 describes it; everything below follows from the two
// widths and is computed in double, where all its values and midpoints are exact.
template <class T>
struct Format;
template <>
struct Format<half> {
  static constexpr int exponent_bits = 5;
  static constexpr int fraction_bits = 10;
};
template <>
struct Format<bfloat16> {
  static constexpr int exponent_bits = 8;
  static constexpr int fraction_bits = 7;
};

template <class T>
struct Rules : Format<T> {
  using Format<T>::exponent_bits;
  using Format<T>::fraction_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint32_t infinity = ((1u << exponent_bits) - 1u) << fraction_bits;
  static constexpr std::uint32_t magnitude_mask = 0x7fffu;

  static double value(std::uint32_t bits) {
    const std::uint32_t magnitude = bits & magnitude_mask;
    const int exponent = static_cast<int>(magnitude >> fraction_bits);
    const double fraction = magnitude & ((1u << fraction_bits) - 1u);
    const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  }

  // Round to nearest, ties to even, of a finite number: the result's bit pattern.
  static std::uint32_t nearest(double x) {
    const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
    const double magnitude = std::abs(x);
    if (magnitude == 0) return sign;
    const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
    // nearbyint rounds ties to even in the default mode; both scalings are exact.
    const double units = std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent));
    const double rounded = std::ldexp(units, exponent - fraction_bits);
    const double largest = value(infinity - 1);
    if (rounded > largest) return sign | infinity;
    if (rounded == 0) return sign;
    const int field = std::ilogb(rounded) + bias;
    if (field < 1) return sign | static_cast<std::uint32_t>(units);
    const double fraction = std::ldexp(rounded, fraction_bits - (field - bias));
    return sign | (static_cast<std::uint32_t>(field) << fraction_bits) |
           (static_cast<std::uint32_t>(fraction) & ((1u << fraction_bits) - 1u));
  }
};

// Loops over tens of thousands of patterns count mismatches and show the first: one assertion each
// would take longer than the work.
struct Mismatches {
  int count = 0;
  std::uint32_t first = 0;
  void check(bool ok, std::uint32_t what) {
    if (!ok && count++ == 0) first = what;
  }
};

}  // namespace

TEMPLATE_TEST_CASE("all 65,536 patterns widen exactly", "[core][element]", half, bfloat16) {
  using R = Rules<TestType>;
  Mismatches wrong;
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float got = TestType::from_bits(static_cast<std::uint16_t>(bits));
    const std::uint32_t word = std::bit_cast<std::uint32_t>(got);
    const std::uint32_t magnitude = bits & R::magnitude_mask;
    if (magnitude > R::infinity) {
      // A NaN keeps sign and payload in the leading bits.
      const std::uint32_t payload = (magnitude - R::infinity) << (23 - R::fraction_bits);
      wrong.check(word == (((bits & 0x8000u) << 16) | 0x7f800000u | payload), bits);
    } else if (magnitude == R::infinity) {
      wrong.check(word == (((bits & 0x8000u) << 16) | 0x7f800000u), bits);
    } else {
      wrong.check(static_cast<double>(got) == R::value(bits) &&
                      std::signbit(got) == ((bits & 0x8000u) != 0),
                  bits);
    }
  }
  INFO("first pattern " << wrong.first);
  REQUIRE(wrong.count == 0);
}

TEMPLATE_TEST_CASE("widening and narrowing give every pattern back", "[core][element]", half,
                   bfloat16) {
  using R = Rules<TestType>;
  const std::uint32_t quiet = 1u << (R::fraction_bits - 1);
  Mismatches wrong;
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float wide = TestType::from_bits(static_cast<std::uint16_t>(bits));
    const bool nan = (bits & R::magnitude_mask) > R::infinity;
    // A signalling NaN comes back quiet, with the rest of its payload.
    wrong.check(TestType(wide).bits == (nan ? bits | quiet : bits), bits);
  }
  INFO("first pattern " << wrong.first);
  REQUIRE(wrong.count == 0);
}

TEMPLATE_TEST_CASE("narrowing rounds to nearest even around every boundary", "[core][element]",
                   half, bfloat16) {
  using R = Rules<TestType>;
  Mismatches wrong;
  const auto check = [&](float x) {
    wrong.check(TestType(x).bits == R::nearest(static_cast<double>(x)),
                std::bit_cast<std::uint32_t>(x));
  };
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (std::uint32_t bits = 0; bits < R::infinity; ++bits) {
    const double low = R::value(bits);
    // Above the largest finite value the next step decides between it and infinity.
    const double high =
        bits + 1 < R::infinity ? R::value(bits + 1) : low + (low - R::value(bits - 1));
    for (const double exact : {low, 0.5 * (low + high), high}) {
      const float x = static_cast<float>(exact);
      if (std::isinf(x)) continue;  // beyond float itself
      for (const float near : {std::nextafter(x, -inf), x, std::nextafter(x, inf)}) {
        if (std::isinf(near)) continue;
        check(near);
        check(-near);
      }
    }
  }
  INFO("first float " << wrong.first);
  REQUIRE(wrong.count == 0);
}

TEMPLATE_TEST_CASE("narrowing random floats agrees with the rule", "[core][element]", half,
                   bfloat16) {
  const kvevict_test::Random random(11);
  Mismatches wrong;
  for (std::uint64_t i = 0; i < 300000; ++i) {
    const auto word = static_cast<std::uint32_t>(random.bits(i));
    const float x = std::bit_cast<float>(word);
    if (!std::isfinite(x)) continue;
    wrong.check(TestType(x).bits == Rules<TestType>::nearest(static_cast<double>(x)), word);
  }
  INFO("first float " << wrong.first);
  REQUIRE(wrong.count == 0);
}

TEST_CASE("narrowing infinities and NaN keeps class and sign", "[core][element]") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  REQUIRE(half(inf).bits == 0x7c00);
  REQUIRE(half(-inf).bits == 0xfc00);
  REQUIRE(bfloat16(inf).bits == 0x7f80);
  REQUIRE(bfloat16(-inf).bits == 0xff80);
  // Payloads that live only in the dropped bits must not turn into infinity.
  for (const std::uint32_t word : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7f801fffu, 0xffffffffu,
                                   0x7f80ffffu, 0x7fbfffffu}) {
    const float nan = std::bit_cast<float>(word);
    INFO("word " << word);
    REQUIRE(std::isnan(static_cast<float>(half(nan))));
    REQUIRE(std::isnan(static_cast<float>(bfloat16(nan))));
    REQUIRE((half(nan).bits >> 15) == (word >> 31));
    REQUIRE((bfloat16(nan).bits >> 15) == (word >> 31));
    REQUIRE((half(nan).bits & 0x0200) != 0);
    REQUIRE((bfloat16(nan).bits & 0x0040) != 0);
  }
}

TEST_CASE("patterns are those of the 16-bit types of CUDA", "[core][element]") {
  // binary16
  REQUIRE(half(1.0f).bits == 0x3c00);
  REQUIRE(half(-2.0f).bits == 0xc000);
  REQUIRE(half(1.0f / 3.0f).bits == 0x3555);
  REQUIRE(half(65504.0f).bits == 0x7bff);
  REQUIRE(half(65519.99f).bits == 0x7bff);
  REQUIRE(half(65520.0f).bits == 0x7c00);
  REQUIRE(half(0x1p-14f).bits == 0x0400);
  REQUIRE(half(0x1p-24f).bits == 0x0001);
  REQUIRE(half(0x1p-25f).bits == 0x0000);
  REQUIRE(half(0x1.8p-25f).bits == 0x0001);
  REQUIRE(half(-0.0f).bits == 0x8000);
  // bfloat16
  REQUIRE(bfloat16(1.0f).bits == 0x3f80);
  REQUIRE(bfloat16(-2.0f).bits == 0xc000);
  REQUIRE(bfloat16(3.14159265f).bits == 0x4049);
  REQUIRE(bfloat16(0x1.fep127f).bits == 0x7f7f);
  REQUIRE(bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
  REQUIRE(bfloat16(0x1p-133f).bits == 0x0001);
  REQUIRE(bfloat16(1.00390625f).bits == 0x3f80);  // a tie, down to even
  REQUIRE(bfloat16(1.01171875f).bits == 0x3f82);  // a tie, up to even
  REQUIRE(bfloat16(-0.0f).bits == 0x8000);
}

TEST_CASE("conversions are constant expressions", "[core][element]") {
  STATIC_REQUIRE(half(0.5f).bits == 0x3800);
  STATIC_REQUIRE(static_cast<float>(half::from_bits(0x0001)) == 0x1p-24f);
  STATIC_REQUIRE(half(5.9604645e-8f).bits == 0x0001);
  STATIC_REQUIRE(bfloat16(0.5f).bits == 0x3f00);
  STATIC_REQUIRE(static_cast<float>(bfloat16::from_bits(0x0001)) == 0x1p-133f);
}

TEST_CASE("storage types are plain 16-bit values", "[core][element]") {
  STATIC_REQUIRE(sizeof(half) == 2);
  STATIC_REQUIRE(alignof(half) == 2);
  STATIC_REQUIRE(std::is_trivially_copyable_v<half>);
  STATIC_REQUIRE(sizeof(bfloat16) == 2);
  STATIC_REQUIRE(alignof(bfloat16) == 2);
  STATIC_REQUIRE(std::is_trivially_copyable_v<bfloat16>);
  // Widening is implicit, narrowing is spelled out.
  STATIC_REQUIRE(std::is_convertible_v<half, float>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<float, half>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<float, bfloat16>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<half, bfloat16>);
}

TEST_CASE("element types have a concept and a run-time name", "[core][element]") {
  STATIC_REQUIRE(kvevict::Element<float>);
  STATIC_REQUIRE(kvevict::Element<half>);
  STATIC_REQUIRE(kvevict::Element<bfloat16>);
  STATIC_REQUIRE_FALSE(kvevict::Element<double>);
  STATIC_REQUIRE_FALSE(kvevict::Element<const float>);
  STATIC_REQUIRE_FALSE(kvevict::Element<std::uint16_t>);
  using kvevict::ElementType;
  STATIC_REQUIRE(kvevict::element_type_of<float> == ElementType::float32);
  STATIC_REQUIRE(kvevict::element_type_of<half> == ElementType::float16);
  STATIC_REQUIRE(kvevict::element_type_of<bfloat16> == ElementType::bfloat16);
  STATIC_REQUIRE(kvevict::size_of(ElementType::float32) == 4);
  STATIC_REQUIRE(kvevict::size_of(ElementType::float16) == 2);
  STATIC_REQUIRE(kvevict::size_of(ElementType::bfloat16) == 2);
}
