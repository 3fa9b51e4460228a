// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cuda/launch.cuh"

namespace kvevict::cuda {

/// Work on scores: one block for each 1024 rows of a head, 8 for each thread.
inline constexpr int score_threads = 128;
inline constexpr int score_tile_rows = 1024;

namespace detail {

template <class Body>
__global__ void __launch_bounds__(score_threads)
    for_score_tiles(RowLayout<MemorySpace::device> layout, std::int64_t tiles, Body body) {
  const HeadTile tile = head_tile(blockIdx.x, tiles, score_tile_rows, layout);
  if (tile.count > 0) body(tile);
}

}  // namespace detail

/// Enqueues body(tile) for every tile of every head; all threads of a block make the call.
template <class Body>
void for_each_score_tile(Resources& res, const char* name,
                         const RowLayout<MemorySpace::device>& layout, const Body& body) {
  const std::int64_t tiles = tiles_of(layout.longest(), score_tile_rows);
  launch(res, name, detail::for_score_tiles<Body>, layout.heads() * tiles, score_threads, 0, layout,
         tiles, body);
}

/// Calls use(row) for this thread's rows of a tile: adjacent threads have adjacent rows.
template <class Use>
__device__ void for_rows_of(const HeadTile& tile, Use&& use) {
  KVEVICT_UNROLL
  for (int i = 0; i < score_tile_rows / score_threads; ++i) {
    const int row = static_cast<int>(threadIdx.x) + i * score_threads;
    if (row < tile.count) use(tile.first + row);
  }
}

}  // namespace kvevict::cuda
