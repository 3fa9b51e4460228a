// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kvevict/cpu/select_top.hpp"

namespace kvevict::cpu {

/// Bounds of one head's count in a global allocation, and its rows already known to lie above the
/// threshold.
struct HeadCount {
  std::int64_t low = 0;   ///< floor, or protected rows if more
  std::int64_t high = 0;  ///< cap, or rows if fewer
  std::int64_t above =
      0;  ///< protected rows and open rows with a key above the digits fixed so far
};

/// One threshold for all heads by descending through the digits of the keys. For a candidate
/// threshold a head would keep clamp(rows above it, low, high); the sum over heads only grows as
/// the threshold falls, so each digit is the largest whose sum reaches the total. One histogram for
/// each head, so that the clamp applies head by head.
inline void global_counts_impl(Resources& res, const AllocationInput<>& input, std::int64_t total,
                               std::int64_t floor, std::int64_t cap, std::int64_t* counts) {
  const ScoreView<>& scores = input.scores;
  const std::int64_t heads = scores.layout.heads();
  WorkspaceScope scope(res.workspace());
  std::int64_t* histograms =
      scope.carve<std::int64_t>("global_counts.histogram", heads * radix_bins);
  HeadCount* bounds = scope.carve<HeadCount>("global_counts.bounds", heads);
  if (res.workspace().counting()) return;

  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t rows = scores.layout.rows(h);
    const std::int64_t held =
        count_protected(input.protect, input.positions.row(h, scores.layout), rows);
    bounds[h].low = std::max(held, std::min(floor, rows));
    bounds[h].high = std::max(bounds[h].low, std::min(cap, rows));
    bounds[h].above = held;
    lowest += bounds[h].low;
    highest += bounds[h].high;
  }
  require(lowest <= total, "protected rows and floors", lowest, "at most the budget's rows,", total,
          ErrorKind::budget);
  require(highest >= total, "rows within the caps", highest, "at least the budget's rows,", total,
          ErrorKind::budget);

  const auto clamped = [&](std::int64_t h, std::int64_t above) {
    return std::clamp(above, bounds[h].low, bounds[h].high);
  };
  std::uint32_t prefix = 0;
  std::uint32_t mask = 0;
  for (int digit = 0; digit < 3; ++digit) {
    const int shift = radix_shifts[digit];
    const std::uint32_t digit_mask = (1u << radix_bits[digit]) - 1u;
    res.parallel_for(heads, [&](std::int64_t h, int) {
      std::int64_t* histogram = histograms + h * radix_bins;
      std::fill_n(histogram, radix_bins, 0);
      const float* head = scores.head(h);
      for_each_open_range(input.protect, input.positions.row(h, scores.layout),
                          scores.layout.rows(h), [&](std::int64_t begin, std::int64_t end) {
                            for (std::int64_t i = begin; i < end; ++i) {
                              const std::uint32_t key = ordered_key(head[i]);
                              if ((key & mask) == prefix) ++histogram[(key >> shift) & digit_mask];
                            }
                          });
    });
    std::uint32_t bin = digit_mask;
    while (true) {
      std::int64_t sum = 0;
      for (std::int64_t h = 0; h < heads; ++h) {
        sum += clamped(h, bounds[h].above + histograms[h * radix_bins + bin]);
      }
      if (sum >= total || bin == 0) break;
      for (std::int64_t h = 0; h < heads; ++h) bounds[h].above += histograms[h * radix_bins + bin];
      --bin;
    }
    prefix |= bin << shift;
    mask |= digit_mask << shift;
  }

  // Rows equal to the threshold fill up the heads in order.
  std::int64_t left = total;
  for (std::int64_t h = 0; h < heads; ++h) {
    counts[h] = clamped(h, bounds[h].above);
    left -= counts[h];
  }
  const std::uint32_t last_bin = prefix & ((1u << radix_bits[2]) - 1u);
  for (std::int64_t h = 0; h < heads && left > 0; ++h) {
    const std::int64_t equal = histograms[h * radix_bins + last_bin];
    const std::int64_t reachable = clamped(h, bounds[h].above + equal);
    const std::int64_t more = std::min(left, reachable - counts[h]);
    counts[h] += more;
    left -= more;
  }
}

}  // namespace kvevict::cpu
