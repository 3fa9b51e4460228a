// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/math/ordered_key.hpp"

namespace kvevict {

/// A score and its row as one integer, unique in its head: ascending keys are in the order of
/// selection, score descending, then row ascending, NaN last. 0 <= row < 2^31.
KVEVICT_HOST_DEVICE constexpr std::uint64_t sort_key(float score, std::int64_t row) {
  return (static_cast<std::uint64_t>(~ordered_key(score)) << 32) | static_cast<std::uint64_t>(row);
}

KVEVICT_HOST_DEVICE constexpr std::int64_t row_of_key(std::uint64_t key) {
  return static_cast<std::int64_t>(key & 0xffffffffu);
}

/// Behind every key of a row.
inline constexpr std::uint64_t last_sort_key = ~std::uint64_t{0};

}  // namespace kvevict
