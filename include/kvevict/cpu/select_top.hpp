// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/math/ordered_key.hpp"
#include "kvevict/math/radix_digits.hpp"
#include "kvevict/ops/select_top.hpp"

namespace kvevict::cpu {

/// Where a selection cuts: all keys above `threshold` are in, and the first `ties` of those equal
/// to it.
struct Cut {
  std::uint32_t threshold = 0;
  std::int64_t ties = 0;
};

/// Calls `use(begin, end)` for the row ranges that are not protected.
template <class Use>
void for_each_open_range(const Protect& protect, const PositionRow<>& positions, std::int64_t rows,
                         Use&& use) {
  std::int64_t begin = 0;
  for_each_protected_range(protect, positions, rows, [&](std::int64_t first, std::int64_t last) {
    if (first > begin) use(begin, first);
    begin = last;
  });
  if (begin < rows) use(begin, rows);
}

/// Histograms that rows take in turn. Where many rows share a digit, one counter would have to wait
/// for its own last increment at every row.
inline constexpr std::int64_t histogram_turns = 4;
inline constexpr std::int64_t histogram_size = histogram_turns * radix_bins;

/// The cut that lets `wanted` >= 1 of the open rows in. `histogram` has histogram_size entries.
inline Cut find_cut(const float* scores, const Protect& protect, const PositionRow<>& positions,
                    std::int64_t rows, std::int64_t wanted, std::int32_t* histogram) {
  std::uint32_t prefix = 0;
  std::uint32_t mask = 0;
  for (int digit = 0; digit < radix_digits; ++digit) {
    const int shift = radix_shift(digit);
    const std::uint32_t digit_mask = radix_digit_mask(digit);
    std::fill_n(histogram, histogram_size, 0);
    const auto count = [&](std::int64_t i, std::int64_t turn) {
      const std::uint32_t key = ordered_key(scores[i]);
      if ((key & mask) == prefix) {
        ++histogram[turn * radix_bins + static_cast<std::int64_t>((key >> shift) & digit_mask)];
      }
    };
    for_each_open_range(protect, positions, rows, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t i = begin;
      for (; i + histogram_turns <= end; i += histogram_turns) {
        for (std::int64_t turn = 0; turn < histogram_turns; ++turn) count(i + turn, turn);
      }
      for (; i < end; ++i) count(i, 0);
    });
    for (std::int64_t turn = 1; turn < histogram_turns; ++turn) {
      for (std::int64_t b = 0; b < radix_bins; ++b)
        histogram[b] += histogram[turn * radix_bins + b];
    }
    std::uint32_t bin = digit_mask;
    while (histogram[bin] < wanted) wanted -= histogram[bin--];
    prefix |= bin << shift;
    mask |= digit_mask << shift;
  }
  return {prefix, wanted};
}

inline void protected_counts_impl(Resources& res, const Positions<>& positions,
                                  const Protect& protect, const RowLayout<>& layout,
                                  std::int64_t* held) {
  if (res.workspace().counting()) return;
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    held[h] = count_protected(protect, positions.row(h, layout), layout.rows(h));
  }
}

inline void select_top_impl(Resources& res, ScoreView<> scores, const Positions<>& positions,
                            const Protect& protect, const RowLayout<>& kept,
                            std::int32_t* indices) {
  const std::int64_t heads = scores.layout.heads();
  WorkspaceScope scope(res.workspace());
  auto* histograms =
      scope.carve<std::int32_t>("select_top.histogram", res.threads() * histogram_size);
  std::int64_t* nan_counts = scope.carve<std::int64_t>("select_top.nan_counts", heads);
  if (res.workspace().counting()) return;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t held =
        count_protected(protect, positions.row(h, scores.layout), scores.layout.rows(h));
    require_for_head(held <= kept.rows(h), "protected rows", h, held,
                     "at most the rows that it keeps,", kept.rows(h), ErrorKind::budget);
  }
  res.parallel_for(heads, [&](std::int64_t h, int worker) {
    const std::int64_t rows = scores.layout.rows(h);
    const std::int64_t count = kept.rows(h);
    const auto row_positions = positions.row(h, scores.layout);
    const float* head = scores.head(h);
    std::int32_t* out = indices + kept.offset(h);
    const std::int32_t* last = out + count;
    std::int64_t nans = 0;
    for (std::int64_t i = 0; i < rows; ++i) nans += std::isnan(head[i]) ? 1 : 0;
    nan_counts[h] = nans;
    const std::int64_t wanted = count - count_protected(protect, row_positions, rows);
    Cut cut;
    if (wanted > 0) {
      cut = find_cut(head, protect, row_positions, rows, wanted,
                     histograms + worker * histogram_size);
    }
    const auto keep_best = [&](std::int64_t begin, std::int64_t end) {
      if (wanted == 0) return;
      // Every row is written and only the end moves on, without a branch on the score.
      for (std::int64_t i = begin; i < end && out != last; ++i) {
        const std::uint32_t key = ordered_key(head[i]);
        const std::int64_t tie = key == cut.threshold && cut.ties > 0 ? 1 : 0;
        *out = static_cast<std::int32_t>(i);
        out += (key > cut.threshold ? 1 : 0) + tie;
        cut.ties -= tie;
      }
    };
    std::int64_t begin = 0;
    for_each_protected_range(protect, row_positions, rows,
                             [&](std::int64_t first, std::int64_t after) {
                               keep_best(begin, first);
                               for (std::int64_t i = first; i < after; ++i) {
                                 *out++ = static_cast<std::int32_t>(i);
                               }
                               begin = after;
                             });
    keep_best(begin, rows);
  });
  for (std::int64_t h = 0; h < heads; ++h) res.report().nan_scores += nan_counts[h];
}

}  // namespace kvevict::cpu
