// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/cpu/resources.hpp"
#include "kvevict/math/random.hpp"
#include "kvevict/ops/baseline_scores.hpp"

namespace kvevict::cpu {

inline void random_scores_impl(Resources& res, const Positions<>& positions, std::uint64_t seed,
                               ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const auto row_positions = positions.row(h, scores.layout);
    float* out = scores.head(h);
    const std::int64_t rows = scores.layout.rows(h);
    const auto number_at = [&](std::int64_t position) {
      return random_uniform(seed, static_cast<std::uint64_t>(h),
                            static_cast<std::uint64_t>(position));
    };
    // Two loops that vectorise instead of one that asks each row whether its position is stored.
    if (row_positions.stored != nullptr) {
      for (std::int64_t i = 0; i < rows; ++i) out[i] = number_at(row_positions.stored[i]);
    } else {
      const std::int64_t first = row_positions.first;
      for (std::int64_t i = 0; i < rows; ++i) out[i] = number_at(first + i);
    }
  });
}

inline void recency_scores_impl(Resources& res, const Positions<>& positions, std::int64_t sinks,
                                ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = scores.layout.rows(h);
    const std::int64_t first = positions.row(h, scores.layout).count_below(sinks, rows);
    float* out = scores.head(h);
    for (std::int64_t i = 0; i < rows; ++i) {
      // Sinks rank from rows - 1 down, the others below them up to the most recent.
      out[i] = static_cast<float>(i < first ? rows - 1 - i : i - first);
    }
  });
}

}  // namespace kvevict::cpu
