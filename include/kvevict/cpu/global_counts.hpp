// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kvevict/cpu/select_top.hpp"
#include "kvevict/ops/global_heads.hpp"

namespace kvevict::cpu {

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
  auto* bounds = scope.carve<kvevict::detail::GlobalHead>("global_counts.bounds", heads);
  std::int64_t* held = scope.carve<std::int64_t>("global_counts.protected", heads);
  if (res.workspace().counting()) return;

  protected_counts_impl(res, input.positions, input.protect, scores.layout, held);
  kvevict::detail::start_global_heads(scores.layout, held, floor, cap, total, bounds);

  std::uint32_t prefix = 0;
  std::uint32_t mask = 0;
  for (int digit = 0; digit < radix_digits; ++digit) {
    const int shift = radix_shift(digit);
    const std::uint32_t digit_mask = radix_digit_mask(digit);
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
        sum += bounds[h].clamped(bounds[h].above + histograms[h * radix_bins + bin]);
      }
      if (sum >= total || bin == 0) break;
      for (std::int64_t h = 0; h < heads; ++h) bounds[h].above += histograms[h * radix_bins + bin];
      --bin;
    }
    prefix |= bin << shift;
    mask |= digit_mask << shift;
  }

  const std::uint32_t last_bin = prefix & radix_digit_mask(radix_digits - 1);
  for (std::int64_t h = 0; h < heads; ++h) {
    bounds[h].equal = histograms[h * radix_bins + last_bin];
  }
  kvevict::detail::finish_global_heads(bounds, heads, total, counts);
}

}  // namespace kvevict::cpu
