// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/cuda/reduce.cuh"
#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/cuda/upload.cuh"
#include "kvevict/math/combined_score.hpp"
#include "kvevict/ops/score_combination.hpp"

namespace kvevict::cuda {

namespace detail {

/// One thread for each chunk of a head.
static __global__ void __launch_bounds__(score_threads)
    average_chunks(ScoreView<MemorySpace::device> scores, std::int64_t chunk, std::int64_t chunks) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * score_threads + threadIdx.x;
  const std::int64_t h = at / chunks;
  if (h >= scores.layout.heads()) return;
  const std::int64_t first = at % chunks * chunk;
  const std::int64_t left = scores.layout.rows(h) - first;
  if (left > 0) replace_by_mean(scores.head(h) + first, left < chunk ? left : chunk);
}

struct ScaleScores {
  float weight;
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    float* out = scores.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) { out[i] *= weight; });
  }
};

struct CombineScores {
  ScoreView<MemorySpace::device> more;
  float weight;
  Combination combination;
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    const float* in = more.head(tile.head);
    float* out = scores.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) {
      const float term = weight * in[i];
      if (combination == Combination::sum) {
        out[i] += term;
      } else {
        out[i] =
            combination == Combination::max ? larger_of(out[i], term) : smaller_of(out[i], term);
      }
    });
  }
};

/// The smaller one; NaN is passed over.
struct MinimumNumber {
  KVEVICT_HOST_DEVICE float operator()(float a, float b) const { return b < a ? b : a; }
};

/// One block for each head.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    find_lowest_scores(ScoreView<MemorySpace::device> scores, float* lowest) {
  const std::int64_t h = blockIdx.x;
  const float* in = scores.head(h);
  float mine = INFINITY;
  for (std::int64_t i = threadIdx.x; i < scores.layout.rows(h); i += Threads) {
    mine = MinimumNumber{}(mine, in[i]);
  }
  const float result = reduce_block<Threads>(mine, MinimumNumber{});
  if (threadIdx.x == 0) lowest[h] = isfinite(result) ? result : 0.0f;
}

struct MultiplyScores {
  ScoreView<MemorySpace::device> factors;
  double epsilon;
  const float* lowest;  ///< of each head, or null
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    const float* factor = factors.head(tile.head);
    float* out = scores.head(tile.head);
    const double added =
        epsilon - (lowest != nullptr ? static_cast<double>(lowest[tile.head]) : 0.0);
    for_rows_of(tile, [&](std::int64_t i) {
      out[i] = static_cast<float>((static_cast<double>(out[i]) + added) *
                                  static_cast<double>(factor[i]));
    });
  }
};

struct ReplaceHeads {
  const std::uint8_t* chosen;
  ScoreView<MemorySpace::device> other;
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    if (chosen[tile.head] == 0) return;
    const float* in = other.head(tile.head);
    float* out = scores.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) { out[i] = in[i]; });
  }
};

}  // namespace detail

inline void chunk_means_impl(Resources& res, std::int64_t chunk,
                             ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  const std::int64_t chunks = tiles_of(scores.layout.longest(), chunk);
  launch(res, "chunk_means", detail::average_chunks,
         tiles_of(scores.layout.heads() * chunks, score_threads), score_threads, 0, scores, chunk,
         chunks);
}

inline void scale_scores_impl(Resources& res, float weight, ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "scale_scores", scores.layout, detail::ScaleScores{weight, scores});
}

inline void combine_scores_impl(Resources& res, ScoreView<MemorySpace::device> more, float weight,
                                Combination combination, ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "combine_scores", scores.layout,
                      detail::CombineScores{more, weight, combination, scores});
}

inline void multiply_scores_impl(Resources& res, ScoreView<MemorySpace::device> factors,
                                 double epsilon, bool from_lowest,
                                 ScoreView<MemorySpace::device> scores) {
  constexpr int threads = 256;
  const std::int64_t heads = scores.layout.heads();
  WorkspaceScope scope(res.workspace());
  float* lowest = scope.carve<float>("multiply_scores.lowest", from_lowest ? heads : 0);
  if (res.workspace().counting()) return;
  if (from_lowest) {
    launch(res, "find_lowest_scores", detail::find_lowest_scores<threads>, heads, threads, 0,
           scores, lowest);
  }
  for_each_score_tile(
      res, "multiply_scores", scores.layout,
      detail::MultiplyScores{factors, epsilon, from_lowest ? lowest : nullptr, scores});
}

inline void replace_heads_impl(Resources& res, const std::uint8_t* chosen,
                               ScoreView<MemorySpace::device> other,
                               ScoreView<MemorySpace::device> scores) {
  const std::int64_t heads = scores.layout.heads();
  WorkspaceScope scope(res.workspace());
  auto* device_chosen = scope.carve<std::uint8_t>("replace_heads.chosen", heads);
  if (res.workspace().counting()) return;
  upload(res.stream(), chosen, heads, device_chosen);
  for_each_score_tile(res, "replace_heads", scores.layout,
                      detail::ReplaceHeads{device_chosen, other, scores});
}

}  // namespace kvevict::cuda
