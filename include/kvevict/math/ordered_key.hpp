// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/config.hpp"

namespace kvevict {

/// Unsigned integer that orders like the score: larger score, larger key. -0 equals +0; every NaN
/// is 0, below -inf.
KVEVICT_HOST_DEVICE constexpr std::uint32_t ordered_key(float score) {
  const std::uint32_t bits = detail::bit_cast<std::uint32_t>(score);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Arithmetic, not branches: the signs of scores are random.
  const std::uint32_t negative = 0u - (bits >> 31);
  std::uint32_t key = bits ^ (negative | 0x80000000u);
  key = magnitude == 0 ? 0x80000000u : key;
  return magnitude > 0x7f800000u ? 0u : key;
}

}  // namespace kvevict
