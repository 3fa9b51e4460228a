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
  if (magnitude > 0x7f800000u) return 0;
  if (magnitude == 0) return 0x80000000u;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

}  // namespace kvevict
