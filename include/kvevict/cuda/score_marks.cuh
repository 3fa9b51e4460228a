// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/cuda/protect.cuh"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/math/lifted_score.hpp"
#include "kvevict/ops/score_marks.hpp"

namespace kvevict::cuda {

namespace detail {

struct MarkBest {
  ScoreView<MemorySpace::device> ranks;
  double part;
  RowLayout<MemorySpace::device> of;
  ScoreView<MemorySpace::device> marks;

  __device__ void operator()(const HeadTile& tile) const {
    const std::int64_t rows = ranks.layout.rows(tile.head);
    const float* in = ranks.head(tile.head);
    float* out = marks.head(tile.head);
    const std::int64_t marked = marked_rows(part, of.rows(tile.head));
    for_rows_of(
        tile, [&](std::int64_t i) { out[i] = is_among_best(in[i], marked, rows) ? in[i] : 0.0f; });
  }
};

struct MarkProtected {
  ProtectedHeads held;
  ScoreView<MemorySpace::device> marks;

  __device__ void operator()(const HeadTile& tile) const {
    const ProtectedRows rows = held.head(tile.head);
    float* out = marks.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) { out[i] = rows.contains(i) ? 1.0f : 0.0f; });
  }
};

/// One block for each head.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    mark_small_rows(ScoreView<MemorySpace::device> norms, double threshold,
                    ScoreView<MemorySpace::device> marks) {
  const std::int64_t h = blockIdx.x;
  const std::int64_t rows = norms.layout.rows(h);
  const float* in = norms.head(h);
  float* out = marks.head(h);
  double mine = 0.0;
  for (std::int64_t i = threadIdx.x; i < rows; i += Threads) mine += static_cast<double>(in[i]);
  const double sum = reduce_block<Threads>(mine, Sum{});
  const double bound = isfinite(sum) ? threshold * sum / static_cast<double>(rows) : 0.0;
  for (std::int64_t i = threadIdx.x; i < rows; i += Threads) {
    out[i] = static_cast<double>(in[i]) < bound ? 1.0f : 0.0f;
  }
}

/// One block for each head.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    lift_marked_rows(ScoreView<MemorySpace::device> marks, ScoreView<MemorySpace::device> scores) {
  const std::int64_t h = blockIdx.x;
  const std::int64_t rows = scores.layout.rows(h);
  const float* mark = marks.head(h);
  float* score = scores.head(h);
  float mine = 0.0f;
  for (std::int64_t i = threadIdx.x; i < rows; i += Threads) {
    if (mark[i] == 0.0f) mine = MaximumNumber{}(mine, score[i]);
  }
  const float largest = reduce_block<Threads>(mine, Maximum{});
  for (std::int64_t i = threadIdx.x; i < rows; i += Threads) {
    if (mark[i] != 0.0f) score[i] = lifted_score(largest, mark[i]);
  }
}

}  // namespace detail

inline void mark_best_impl(Resources& res, ScoreView<MemorySpace::device> ranks, double part,
                           const RowLayout<MemorySpace::device>& of,
                           ScoreView<MemorySpace::device> marks) {
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "mark_best", marks.layout, detail::MarkBest{ranks, part, of, marks});
}

inline void mark_protected_impl(Resources& res, const Positions<MemorySpace::device>& positions,
                                const Protect& protect, ScoreView<MemorySpace::device> marks) {
  WorkspaceScope scope(res.workspace());
  const ProtectedHeads held = protected_heads(res, scope, positions, marks.layout, protect);
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "mark_protected", marks.layout, detail::MarkProtected{held, marks});
}

inline void mark_small_impl(Resources& res, ScoreView<MemorySpace::device> norms, double threshold,
                            ScoreView<MemorySpace::device> marks) {
  constexpr int threads = 256;
  if (res.workspace().counting()) return;
  launch(res, "mark_small", detail::mark_small_rows<threads>, norms.layout.heads(), threads, 0,
         norms, threshold, marks);
}

inline void lift_marked_impl(Resources& res, ScoreView<MemorySpace::device> marks,
                             ScoreView<MemorySpace::device> scores) {
  constexpr int threads = 256;
  if (res.workspace().counting()) return;
  launch(res, "lift_marked", detail::lift_marked_rows<threads>, scores.layout.heads(), threads, 0,
         marks, scores);
}

}  // namespace kvevict::cuda
