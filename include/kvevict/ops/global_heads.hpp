// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/core/error.hpp"
#include "kvevict/core/row_layout.hpp"

namespace kvevict::detail {

/// Bounds of one head's count in a global allocation, and what is known of its rows so far.
struct GlobalHead {
  std::int64_t low;    ///< floor, or protected rows if more
  std::int64_t high;   ///< cap, or rows if fewer
  std::int64_t above;  ///< protected rows and open rows with a key above the digits fixed so far
  std::int64_t equal;  ///< open rows with the digit that was fixed last

  KVEVICT_HOST_DEVICE std::int64_t clamped(std::int64_t count) const {
    return count < low ? low : (count > high ? high : count);
  }
};

/// Writes where every head starts, `held` being its protected rows. Throws a budget error when
/// floors exceed `total` or caps do not reach it.
inline void start_global_heads(const RowLayout<>& layout, const std::int64_t* held,
                               std::int64_t floor, std::int64_t cap, std::int64_t total,
                               GlobalHead* heads) {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    const std::int64_t rows = layout.rows(h);
    heads[h].low = std::max(held[h], std::min(floor, rows));
    heads[h].high = std::max(heads[h].low, std::min(cap, rows));
    heads[h].above = held[h];
    heads[h].equal = 0;
    lowest += heads[h].low;
    highest += heads[h].high;
  }
  require(lowest <= total, "protected rows and floors", lowest, "at most the budget's rows,", total,
          ErrorKind::budget);
  require(highest >= total, "rows within the caps", highest, "at least the budget's rows,", total,
          ErrorKind::budget);
}

/// The counts once all digits are fixed: rows equal to the threshold fill up the heads in order.
inline void finish_global_heads(const GlobalHead* heads, std::int64_t count, std::int64_t total,
                                std::int64_t* counts) {
  std::int64_t left = total;
  for (std::int64_t h = 0; h < count; ++h) {
    counts[h] = heads[h].clamped(heads[h].above);
    left -= counts[h];
  }
  for (std::int64_t h = 0; h < count && left > 0; ++h) {
    const std::int64_t reachable = heads[h].clamped(heads[h].above + heads[h].equal);
    const std::int64_t more = std::min(left, reachable - counts[h]);
    counts[h] += more;
    left -= more;
  }
}

}  // namespace kvevict::detail
