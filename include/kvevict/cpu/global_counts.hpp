// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kvevict/cpu/select_top.hpp"
#include "kvevict/ops/global_heads.hpp"

namespace kvevict::cpu {

/// One threshold for the heads of each group by descending through the digits of the keys. For a
/// candidate threshold a head would keep clamp(rows above it, low, high); the sum over heads only
/// grows as the threshold falls, so each digit is the largest whose sum reaches the total. One
/// histogram for each head, so that the clamp applies head by head.
inline void global_counts_impl(Resources& res, const AllocationInput<>& input,
                               const ThresholdGroups& groups, std::int64_t* counts) {
  const ScoreView<>& scores = input.scores;
  const std::int64_t heads = scores.layout.heads();
  const std::int64_t group_count = groups.count(heads);
  WorkspaceScope scope(res.workspace());
  auto* histograms = scope.carve<std::int64_t>("global_counts.histogram", heads * radix_bins);
  auto* sums = scope.carve<std::int64_t>("global_counts.sums", group_count * radix_bins);
  auto* bounds = scope.carve<kvevict::detail::GlobalHead>("global_counts.bounds", heads);
  auto* held = scope.carve<std::int64_t>("global_counts.protected", heads);
  auto* totals = scope.carve<std::int64_t>("global_counts.totals", group_count);
  auto* prefixes = scope.carve<std::uint32_t>("global_counts.prefixes", group_count);
  auto* scratch = scope.carve<std::int64_t>("global_counts.scratch",
                                            kvevict::detail::threshold_scratch(groups, heads));
  if (res.workspace().counting()) return;

  protected_counts_impl(res, input.positions, input.protect, scores.layout, held);
  kvevict::detail::start_global_heads(scores.layout, held, groups, bounds, totals, scratch);

  std::fill_n(prefixes, group_count, std::uint32_t{0});
  std::uint32_t mask = 0;
  for (int digit = 0; digit < radix_digits; ++digit) {
    const int shift = radix_shift(digit);
    const std::uint32_t digit_mask = radix_digit_mask(digit);
    res.parallel_for(heads, [&](std::int64_t h, int) {
      std::int64_t* histogram = histograms + h * radix_bins;
      std::fill_n(histogram, radix_bins, 0);
      const float* head = scores.head(h);
      const std::uint32_t prefix = prefixes[h / groups.heads];
      for_each_open_range(input.protect, input.positions.row(h, scores.layout),
                          scores.layout.rows(h), [&](std::int64_t begin, std::int64_t end) {
                            for (std::int64_t i = begin; i < end; ++i) {
                              const std::uint32_t key = ordered_key(head[i]);
                              if ((key & mask) == prefix) ++histogram[(key >> shift) & digit_mask];
                            }
                          });
      // Every bin becomes the number of rows in it and in all larger ones.
      for (int bin = radix_bins - 1; bin-- > 0;) histogram[bin] += histogram[bin + 1];
    });
    res.parallel_for(group_count, [&](std::int64_t g, int) {
      std::int64_t* sum = sums + g * radix_bins;
      std::fill_n(sum, radix_bins, 0);
      for (std::int64_t h = g * groups.heads; h < (g + 1) * groups.heads; ++h) {
        const std::int64_t* histogram = histograms + h * radix_bins;
        for (int bin = 0; bin < radix_bins; ++bin) {
          sum[bin] += bounds[h].clamped(bounds[h].above + histogram[bin]);
        }
      }
    });
    groups.ranks.add(sums, group_count * radix_bins);
    res.parallel_for(group_count, [&](std::int64_t g, int) {
      auto bin = static_cast<int>(digit_mask);
      while (bin > 0 && sums[g * radix_bins + bin] < totals[g]) --bin;
      for (std::int64_t h = g * groups.heads; h < (g + 1) * groups.heads; ++h) {
        const std::int64_t* histogram = histograms + h * radix_bins;
        const std::int64_t above = bin + 1 < radix_bins ? histogram[bin + 1] : 0;
        bounds[h].equal = histogram[bin] - above;
        bounds[h].above += above;
      }
      prefixes[g] |= static_cast<std::uint32_t>(bin) << shift;
    });
    mask |= digit_mask << shift;
  }
  kvevict::detail::finish_global_heads(bounds, heads, groups, totals, counts, scratch);
}

}  // namespace kvevict::cpu
