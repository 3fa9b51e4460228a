// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/config.hpp"

namespace kvevict {

/// exp(x) for x <= 0 within 2 units in the last place; 0 below -87.3, where the result would be
/// subnormal; NaN for NaN. x = n ln 2 + r with |r| <= ln 2 / 2, then the Taylor polynomial of
/// degree 7 (truncation below 6e-9) and an exact scaling by 2^n. No branch, no integer conversion,
/// the cut-off as a bit mask: loops over it vectorise on every instruction set, and one argument
/// has one value wherever it stands in a vector (library versions treat the vector body and the
/// tail differently).
KVEVICT_HOST_DEVICE inline float exp_nonpositive(float x) {
  constexpr float lowest = -87.3f;
  constexpr float log2_e = 1.44269504089f;
  constexpr float ln2_high = 0.693359375f;  // few bits: n * ln2_high is exact
  constexpr float ln2_low = -2.12194440e-4f;
  constexpr float magic =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer kept in the low bits
  const float shifted = x * log2_e + magic;
  const float n = shifted - magic;
  const float r = (x - n * ln2_high) - n * ln2_low;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const std::uint32_t exponent = (detail::bit_cast<std::uint32_t>(shifted) - 0x4b400000u + 127u)
                                 << 23;
  const float result = p * detail::bit_cast<float>(exponent);
  const std::uint32_t keep = 0u - static_cast<std::uint32_t>(!(x < lowest));
  return detail::bit_cast<float>(detail::bit_cast<std::uint32_t>(result) & keep);
}

}  // namespace kvevict
