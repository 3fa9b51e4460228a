// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/config.hpp"
#include "kvevict/core/error.hpp"

namespace kvevict {

/// The rows of a head without its first and its last ones, by row order; all by default.
struct RowRange {
  std::int64_t skip_first = 0;
  std::int64_t skip_last = 0;

  KVEVICT_HOST_DEVICE std::int64_t begin(std::int64_t rows) const {
    return skip_first < rows ? skip_first : rows;
  }
  KVEVICT_HOST_DEVICE std::int64_t end(std::int64_t rows) const {
    const std::int64_t first = begin(rows);
    return rows - first > skip_last ? rows - skip_last : first;
  }
  KVEVICT_HOST_DEVICE std::int64_t count(std::int64_t rows) const {
    return end(rows) - begin(rows);
  }

  friend constexpr bool operator==(const RowRange&, const RowRange&) = default;
};

/// Throws invalid_argument on negative counts.
inline void require_valid(const RowRange& range) {
  require(range.skip_first >= 0, "skip_first", range.skip_first, ">=", 0);
  require(range.skip_last >= 0, "skip_last", range.skip_last, ">=", 0);
}

}  // namespace kvevict
