// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two 16-bit floating-point formats, as bits.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "float_math.hpp"

namespace kvevict_ptx {

template <int mantissa_bits>
struct Small {
  static constexpr int mantissa = mantissa_bits;
  static constexpr int exponent_bits = 15 - mantissa_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint16_t infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
  static constexpr std::uint16_t nan = 0x7fff;

  std::uint16_t bits = 0;
};
using Half = Small<10>;
using Bfloat16 = Small<7>;

template <int m>
double value_of(Small<m> small) {
  using Format = Small<m>;
  const bool negative = (small.bits & 0x8000) != 0;
  const int magnitude = small.bits & 0x7fff;
  if (magnitude > Format::infinity) return std::numeric_limits<double>::quiet_NaN();
  double value = std::numeric_limits<double>::infinity();
  if (magnitude < Format::infinity) {
    const int exponent = magnitude >> m;
    const int fraction = (magnitude & ((1 << m) - 1)) | (exponent != 0 ? 1 << m : 0);
    value = std::ldexp(fraction, (exponent != 0 ? exponent : 1) - Format::bias - m);
  }
  return negative ? -value : value;
}

template <class Format>
Format to_small(double value, Rounding rounding) {
  if (value != value) return {Format::nan};
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  double magnitude = std::fabs(value);
  if (magnitude == 0) return {sign};
  if (std::isinf(magnitude)) return {static_cast<std::uint16_t>(sign | Format::infinity)};
  // Towards zero or away from it, seen from the magnitude.
  if (sign != 0 && rounding == Rounding::down) {
    rounding = Rounding::up;
  } else if (sign != 0 && rounding == Rounding::up) {
    rounding = Rounding::down;
  }
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
  const int lowest = 1 - Format::bias;
  const int unit = std::max(exponent - 1, lowest) - Format::mantissa;
  magnitude = rounded_to_integer(std::ldexp(magnitude, -unit), rounding);
  // Adding lets a carry of the fraction run into the exponent, up to infinity.
  const double code = magnitude + std::ldexp(unit + Format::mantissa - lowest, Format::mantissa);
  if (code >= Format::infinity) {
    const bool stays_finite = rounding == Rounding::zero || rounding == Rounding::down;
    return {static_cast<std::uint16_t>(sign | (Format::infinity - (stays_finite ? 1 : 0)))};
  }
  return {static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(code))};
}

}  // namespace kvevict_ptx
