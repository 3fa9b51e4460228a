// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cuda/copy.cuh"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/cuda/search.cuh"
#include "kvevict/ops/pooling.hpp"

namespace kvevict::cuda {

namespace detail {

struct PoolRows {
  Positions<MemorySpace::device> positions;
  RowLayout<MemorySpace::device> layout;
  PositionBound<MemorySpace::device> prefix;
  std::int64_t group;
  std::int64_t kernel;
  Pooling pooling;
  bool count_padding;
  const float* copy;  ///< of the scores before
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    const std::int64_t kv_head = tile.head / group;
    const std::int64_t n = count_below<score_threads>(positions.row(kv_head, layout),
                                                      prefix.of(kv_head), layout.rows(kv_head));
    const std::int64_t offset = scores.layout.offset(tile.head);
    for_rows_of(tile, [&](std::int64_t j) {
      if (j < n) scores.data[offset + j] = pooled(copy + offset, j, n);
    });
  }

 private:
  __device__ float pooled(const float* in, std::int64_t j, std::int64_t n) const {
    const std::int64_t reach = kernel / 2;
    const std::int64_t begin = j > reach ? j - reach : 0;
    const std::int64_t end = j + reach + 1 < n ? j + reach + 1 : n;
    float result = in[begin];
    if (pooling == Pooling::max) {
      for (std::int64_t i = begin + 1; i < end; ++i) result = Maximum{}(result, in[i]);
      return result;
    }
    for (std::int64_t i = begin + 1; i < end; ++i) result += in[i];
    return result / static_cast<float>(count_padding ? kernel : end - begin);
  }
};

}  // namespace detail

/// Neighbours are needed as they were: the scores are copied first. 16 bytes of traffic for each
/// score where 8 are unavoidable; the neighbourhoods come from the caches.
inline void pool_rows_impl(Resources& res, const Positions<MemorySpace::device>& positions,
                           const RowLayout<MemorySpace::device>& layout,
                           const PositionBound<MemorySpace::device>& prefix, std::int64_t kernel,
                           Pooling pooling, bool count_padding,
                           ScoreView<MemorySpace::device> scores) {
  const std::int64_t group = layout.heads() == 0 ? 1 : scores.layout.heads() / layout.heads();
  WorkspaceScope scope(res.workspace());
  float* before = scope.carve<float>("pool_rows.copy", scores.layout.total());
  if (res.workspace().counting()) return;
  copy(res, scores.data, scores.layout.total(), before);
  for_each_score_tile(res, "pool_rows", scores.layout,
                      detail::PoolRows{positions, layout, prefix, group, kernel, pooling,
                                       count_padding, before, scores});
}

}  // namespace kvevict::cuda
