// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/config.hpp"

namespace kvevict {

/// Digits of an ordered key in a radix select, most significant first: 11 + 11 + 10 bits.
inline constexpr int radix_digits = 3;
inline constexpr int radix_bins = 2048;
KVEVICT_HOST_DEVICE constexpr int radix_shift(int digit) {
  return digit == 0 ? 21 : (digit == 1 ? 10 : 0);
}
KVEVICT_HOST_DEVICE constexpr std::uint32_t radix_digit_mask(int digit) {
  return digit == 2 ? 1023u : 2047u;
}

}  // namespace kvevict
