// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace mini_llama {

// IEEE binary16 bits to float, exact for every input (NaN payloads are kept). Free of branches, so
// that loops over it vectorise.
constexpr float half_to_float(std::uint16_t half) {
  // As float bits the half's exponent is too small by 112; the product repairs that for normal and
  // subnormal numbers alike. Infinity and NaN need the largest exponent instead.
  constexpr float rebias = 0x1p112f;
  constexpr std::uint32_t exponent = 0x7f800000u;
  const std::uint32_t magnitude = std::uint32_t{half & 0x7fffu} << 13;
  const std::uint32_t scaled =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * rebias);
  const bool is_special = (half & 0x7c00u) == 0x7c00u;
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  return std::bit_cast<float>(sign | (is_special ? magnitude | exponent : scaled));
}

// Float to IEEE binary16 bits, rounded to nearest, ties to even. From 65520 on the result is
// infinity; NaN stays NaN (quiet).
constexpr std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14, the smallest normal half
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    half = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
  } else {
    // Adding 1/2 shifts the subnormal's bits to the end of the fraction and rounds them as the
    // float unit does: to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
  }
  return static_cast<std::uint16_t>(sign | half);
}

// bfloat16 bits (the upper half of a float) to float, exact.
constexpr float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

}  // namespace mini_llama
