// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include "kvevict/core/config.hpp"

namespace kvevict {

/// IEEE 754 binary16 storage: 1 sign, 5 exponent, 10 fraction bits, the bit pattern of CUDA's
/// `__half`. Widening to float is exact; narrowing rounds to nearest, ties to even, and overflows
/// to infinity.
struct half {
  std::uint16_t bits = 0;

  half() = default;
  KVEVICT_HOST_DEVICE explicit constexpr half(float value) : bits(narrow(value)) {}
  KVEVICT_HOST_DEVICE constexpr operator float() const { return widen(bits); }

  KVEVICT_HOST_DEVICE static constexpr half from_bits(std::uint16_t bits) {
    half h;
    h.bits = bits;
    return h;
  }

  /// Branch-free, so that compilers vectorise loops over it: moving the fields into place leaves
  /// the exponent off by 127 - 15, which one exact multiplication repairs for normal and subnormal
  /// numbers alike.
  KVEVICT_HOST_DEVICE static constexpr float widen(std::uint16_t h) {
    const std::uint32_t magnitude = h & 0x7fffu;
    const float scaled = detail::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const std::uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
    const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
    return detail::bit_cast<float>(detail::bit_cast<std::uint32_t>(scaled) | special | sign);
  }

  KVEVICT_HOST_DEVICE static constexpr std::uint16_t narrow(float value) {
    const std::uint32_t word = detail::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000u;
    const std::uint32_t magnitude = word & 0x7fffffffu;
    std::uint32_t result = 0;
    if (magnitude > 0x7f800000u) {
      result =
          0x7e00u | ((magnitude >> 13) & 0x3ffu);  // a quiet NaN keeps its leading payload bits
    } else if (magnitude >= 0x477ff000u) {
      result = 0x7c00u;  // 65520 and above round to infinity
    } else if (magnitude >= 0x38800000u) {
      const std::uint32_t odd = (magnitude >> 13) & 1u;
      result = (magnitude - 0x38000000u + 0xfffu + odd) >> 13;
    } else {
      // Subnormal: adding 0.5 aligns the last bit of the sum with 2^-24, so the hardware rounds to
      // even for us.
      const float aligned = detail::bit_cast<float>(magnitude) + 0.5f;
      result = detail::bit_cast<std::uint32_t>(aligned) - 0x3f000000u;
    }
    return static_cast<std::uint16_t>(sign | result);
  }
};

/// bfloat16 storage: the upper half of a float, the bit pattern of CUDA's `__nv_bfloat16`. Widening
/// is exact; narrowing rounds to nearest, ties to even.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  KVEVICT_HOST_DEVICE explicit constexpr bfloat16(float value) : bits(narrow(value)) {}
  KVEVICT_HOST_DEVICE constexpr operator float() const { return widen(bits); }

  KVEVICT_HOST_DEVICE static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 b;
    b.bits = bits;
    return b;
  }

  KVEVICT_HOST_DEVICE static constexpr float widen(std::uint16_t b) {
    return detail::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
  }

  KVEVICT_HOST_DEVICE static constexpr std::uint16_t narrow(float value) {
    const std::uint32_t word = detail::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((word >> 16) | 0x40u);
    const std::uint32_t odd = (word >> 16) & 1u;
    return static_cast<std::uint16_t>((word + 0x7fffu + odd) >> 16);
  }
};

static_assert(sizeof(half) == 2 && sizeof(bfloat16) == 2);

/// A storage type of cached keys and values. Arithmetic always happens in float or wider.
template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, half> || std::same_as<T, bfloat16>;

/// The largest finite number of an element type.
template <Element T>
inline constexpr double largest_finite = std::same_as<T, half>       ? 65504.0
                                         : std::same_as<T, bfloat16> ? 0x1.fep127
                                                                     : 0x1.fffffep127;

/// `value` rounded to the element type; finite numbers beyond its range become the largest finite
/// one, where a conversion makes them infinite.
template <Element T>
KVEVICT_HOST_DEVICE T saturated(double value) {
  constexpr double most = largest_finite<T>;
  const bool finite = value - value == 0.0;
  if (finite && value > most) value = most;
  if (finite && value < -most) value = -most;
  return static_cast<T>(static_cast<float>(value));
}

/// Run-time name of an element type, for views whose type is known only at run time.
enum class ElementType : std::uint8_t { float32, float16, bfloat16 };

template <Element T>
inline constexpr ElementType element_type_of = std::same_as<T, float>  ? ElementType::float32
                                               : std::same_as<T, half> ? ElementType::float16
                                                                       : ElementType::bfloat16;

/// Bytes of one element.
KVEVICT_HOST_DEVICE constexpr std::int64_t size_of(ElementType type) {
  return type == ElementType::float32 ? 4 : 2;
}

}  // namespace kvevict
