// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/cuda/search.cuh"
#include "kvevict/math/random.hpp"
#include "kvevict/ops/baseline_scores.hpp"

namespace kvevict::cuda {

namespace detail {

struct RandomScores {
  Positions<MemorySpace::device> positions;
  std::uint64_t seed;
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    const PositionRow<> of_row = positions.row(tile.head, scores.layout);
    float* out = scores.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) {
      out[i] = random_uniform(seed, static_cast<std::uint64_t>(tile.head),
                              static_cast<std::uint64_t>(std::int64_t{of_row[i]}));
    });
  }
};

struct RecencyScores {
  Positions<MemorySpace::device> positions;
  std::int64_t sinks;
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    const std::int64_t rows = scores.layout.rows(tile.head);
    const std::int64_t first =
        count_below<score_threads>(positions.row(tile.head, scores.layout), sinks, rows);
    float* out = scores.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) {
      // Sinks rank from rows - 1 down, the others below them up to the most recent.
      out[i] = static_cast<float>(i < first ? rows - 1 - i : i - first);
    });
  }
};

}  // namespace detail

inline void random_scores_impl(Resources& res, const Positions<MemorySpace::device>& positions,
                               std::uint64_t seed, ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "random_scores", scores.layout,
                      detail::RandomScores{positions, seed, scores});
}

inline void recency_scores_impl(Resources& res, const Positions<MemorySpace::device>& positions,
                                std::int64_t sinks, ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "recency_scores", scores.layout,
                      detail::RecencyScores{positions, sinks, scores});
}

}  // namespace kvevict::cuda
