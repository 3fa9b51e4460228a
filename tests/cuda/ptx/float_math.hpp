// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a device's floating-point numbers behave where a CPU's behave differently.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "program.hpp"

namespace kvevict_ptx {

/// The NaN that single-precision operations produce.
inline constexpr std::uint32_t canonical_nan = 0x7fffffffu;

/// Single-precision results are NaN with all bits set but the sign; double precision keeps
/// payloads.
inline float canonical(float value) {
  return value == value ? value : std::bit_cast<float>(canonical_nan);
}
inline double canonical(double value) { return value; }

/// .ftz: subnormal numbers become zeros of their sign.
inline float flushed(float value) {
  return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0f, value) : value;
}
inline double flushed(double value) { return value; }

/// .sat: clamped to [0, 1]; NaN becomes 0.
template <class T>
T saturated(T value) {
  return value > T{0} ? (value < T{1} ? value : T{1}) : T{0};
}

/// `exact`, of more precision than T, rounded to T. T's largest number is the limit of rounding
/// towards zero.
template <class T>
T rounded_to(long double exact, Rounding rounding) {
  const T nearest = static_cast<T>(exact);
  const long double back = nearest;
  if (rounding == Rounding::nearest || back == exact || exact != exact) return nearest;
  const bool towards_lower =
      rounding == Rounding::down || (rounding == Rounding::zero && exact > 0);
  if (towards_lower == (back < exact)) return nearest;
  const T limit = std::numeric_limits<T>::infinity();
  return std::nextafter(nearest, towards_lower ? -limit : limit);
}

/// An integral value near `value`, to even in the middle.
template <class T>
T rounded_to_integer(T value, Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest:
      return std::nearbyint(value);
    case Rounding::zero:
      return std::trunc(value);
    case Rounding::down:
      return std::floor(value);
    case Rounding::up:
      return std::ceil(value);
  }
  return value;
}

}  // namespace kvevict_ptx
