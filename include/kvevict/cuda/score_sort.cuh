// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/scores.hpp"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/math/sort_key.hpp"

namespace kvevict::cuda {

/// The rows of every head in the order of selection, as sort keys: those of head h lie at
/// keys + h * stride, and behind them up to the stride the last key.
struct SortedRows {
  std::uint64_t* keys = nullptr;
  std::int64_t stride = 0;  ///< a power of two, the longest head or more

  KVEVICT_HOST_DEVICE std::uint64_t* head(std::int64_t head) const { return keys + head * stride; }
};

namespace detail {

inline constexpr int sort_threads = 256;
/// Keys that a block sorts in shared memory.
inline constexpr std::int64_t sort_tile = 1024;

static __global__ void __launch_bounds__(sort_threads)
    make_sort_keys(ScoreView<MemorySpace::device> scores, SortedRows sorted) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * sort_threads + threadIdx.x;
  const std::int64_t h = at / sorted.stride;
  if (h >= scores.layout.heads()) return;
  const std::int64_t row = at % sorted.stride;
  sorted.keys[at] =
      row < scores.layout.rows(h) ? sort_key(scores.head(h)[row], row) : last_sort_key;
}

/// Which two keys the pair `p` of a bitonic step over a distance compares, and whether the smaller
/// one goes first: blocks of `run` keys ascend and descend in turns, the last run ascends.
struct BitonicPair {
  std::int64_t low;
  std::int64_t high;

  KVEVICT_HOST_DEVICE BitonicPair(std::int64_t p, std::int64_t distance)
      : low(p / distance * 2 * distance + p % distance), high(low + distance) {}
};

KVEVICT_HOST_DEVICE inline bool out_of_order(std::uint64_t a, std::uint64_t b, std::int64_t place,
                                             std::int64_t run) {
  return (a > b) == ((place & run) == 0);
}

/// One block for each tile of each head, in shared memory: all steps of the runs from `first_run`
/// to `last_run` whose distance fits the tile.
static __global__ void __launch_bounds__(sort_threads)
    sort_tiles(SortedRows sorted, std::int64_t tile, std::int64_t first_run,
               std::int64_t last_run) {
  KVEVICT_SHARED(std::uint64_t, keys, [sort_tile]);
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * tile;
  const std::int64_t place = begin % sorted.stride;  // in the head
  for (std::int64_t i = threadIdx.x; i < tile; i += sort_threads) keys[i] = sorted.keys[begin + i];
  __syncthreads();
  for (std::int64_t run = first_run; run <= last_run; run *= 2) {
    for (std::int64_t distance = (run < tile ? run : tile) / 2; distance > 0; distance /= 2) {
      for (std::int64_t p = threadIdx.x; p < tile / 2; p += sort_threads) {
        const BitonicPair pair(p, distance);
        const std::uint64_t a = keys[pair.low];
        const std::uint64_t b = keys[pair.high];
        if (out_of_order(a, b, place + pair.low, run)) {
          keys[pair.low] = b;
          keys[pair.high] = a;
        }
      }
      __syncthreads();
    }
  }
  for (std::int64_t i = threadIdx.x; i < tile; i += sort_threads) sorted.keys[begin + i] = keys[i];
}

/// One thread for each pair, for distances beyond a tile.
static __global__ void __launch_bounds__(sort_threads)
    sort_step(SortedRows sorted, std::int64_t pairs, std::int64_t run, std::int64_t distance) {
  const std::int64_t p = static_cast<std::int64_t>(blockIdx.x) * sort_threads + threadIdx.x;
  if (p >= pairs) return;
  const BitonicPair pair(p, distance);
  const std::uint64_t a = sorted.keys[pair.low];
  const std::uint64_t b = sorted.keys[pair.high];
  if (out_of_order(a, b, pair.low % sorted.stride, run)) {
    sorted.keys[pair.low] = b;
    sorted.keys[pair.high] = a;
  }
}

}  // namespace detail

/// Carves 8 bytes for each row, heads padded to a power of two, and enqueues a bitonic sort of
/// every head: log2(rows / 1024)^2 / 2 passes over the keys beyond the first.
inline SortedRows sort_rows(Resources& res, WorkspaceScope& scope,
                            ScoreView<MemorySpace::device> scores) {
  SortedRows sorted;
  sorted.stride = 1;
  while (sorted.stride < scores.layout.longest()) sorted.stride *= 2;
  const std::int64_t count = scores.layout.heads() * sorted.stride;
  sorted.keys = scope.carve<std::uint64_t>("sort_rows.keys", count);
  if (res.workspace().counting()) return sorted;
  const std::int64_t tile = sorted.stride < detail::sort_tile ? sorted.stride : detail::sort_tile;
  constexpr int threads = detail::sort_threads;
  launch(res, "make_sort_keys", detail::make_sort_keys, tiles_of(count, threads), threads, 0,
         scores, sorted);
  launch(res, "sort_tiles", detail::sort_tiles, count / tile, threads, 0, sorted, tile,
         std::int64_t{2}, tile);
  for (std::int64_t run = 2 * tile; run <= sorted.stride; run *= 2) {
    for (std::int64_t distance = run / 2; distance >= tile; distance /= 2) {
      launch(res, "sort_step", detail::sort_step, tiles_of(count / 2, threads), threads, 0, sorted,
             count / 2, run, distance);
    }
    launch(res, "sort_tiles", detail::sort_tiles, count / tile, threads, 0, sorted, tile, run, run);
  }
  return sorted;
}

}  // namespace kvevict::cuda
