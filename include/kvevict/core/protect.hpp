// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kvevict/core/error.hpp"
#include "kvevict/core/positions.hpp"

namespace kvevict {

/// Positions [begin, end).
struct PositionSpan {
  std::int32_t begin = 0;
  std::int32_t end = 0;

  friend bool operator==(const PositionSpan&, const PositionSpan&) = default;
};

/// Rows that selection keeps whatever their score: a set beside the scores, never a magic score.
/// Sinks and spans are named by position (a sink that was evicted earlier is not replaced by
/// another row); recent means the last rows. Applies to every head. Rows that fall under several
/// rules count once.
struct Protect {
  std::int64_t sinks = 0;                    ///< rows at positions below this
  std::int64_t recent = 0;                   ///< this many last rows of each head
  std::span<const PositionSpan> spans = {};  ///< rows at these positions, such as a system prompt
};

/// Throws invalid_argument on negative counts or a span that ends before it begins.
inline void require_valid(const Protect& protect) {
  require(protect.sinks >= 0, "protect.sinks", protect.sinks, ">=", 0);
  require(protect.recent >= 0, "protect.recent", protect.recent, ">=", 0);
  for (const PositionSpan& span : protect.spans) {
    require(span.end >= span.begin, "protect.spans.end", span.end, ">= begin,", span.begin);
  }
}

/// Calls `use(begin, end)` for the disjoint ascending row ranges of one head that are protected.
/// Spans may overlap each other, the sinks and the recent rows. O(spans^2 log rows) without memory,
/// spans being few.
template <class Int, class Use>
void for_each_protected_range(const Protect& protect, const PositionRow<Int>& positions,
                              std::int64_t rows, Use&& use) {
  const std::int64_t sinks_end = positions.count_below(protect.sinks, rows);
  const std::int64_t recent_begin = protect.recent < rows ? rows - protect.recent : 0;
  std::int64_t done = 0;  // rows before this one have been dealt with
  while (done < rows) {
    // What is left of the range that starts first, the longest of several.
    std::int64_t begin = rows;
    std::int64_t end = rows;
    const auto offer = [&](std::int64_t first, std::int64_t last) {
      first = first > done ? first : done;
      if (first >= last) return;
      if (first < begin || (first == begin && last > end)) {
        begin = first;
        end = last;
      }
    };
    offer(0, sinks_end);
    offer(recent_begin, rows);
    for (const PositionSpan& span : protect.spans) {
      offer(positions.count_below(span.begin, rows), positions.count_below(span.end, rows));
    }
    if (begin >= rows) return;
    use(begin, end);
    done = end;
  }
}

/// Protected rows of one head. O(spans^2 log rows).
template <class Int>
std::int64_t count_protected(const Protect& protect, const PositionRow<Int>& positions,
                             std::int64_t rows) {
  std::int64_t count = 0;
  for_each_protected_range(protect, positions, rows,
                           [&](std::int64_t begin, std::int64_t end) { count += end - begin; });
  return count;
}

/// Protected rows that a head of `rows` rows has at most, whatever its positions: they are unique
/// and not negative. O(spans).
inline std::int64_t most_protected(const Protect& protect, std::int64_t rows) {
  std::int64_t most = std::min(protect.recent, rows);
  most += std::min(protect.sinks, rows);
  for (const PositionSpan& span : protect.spans) {
    most += std::int64_t{span.end} - std::int64_t{span.begin};
  }
  return std::min(most, rows);
}

}  // namespace kvevict
