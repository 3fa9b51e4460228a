// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cuda/protect.cuh"
#include "kvevict/cuda/radix_select.cuh"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/cuda/score_sort.cuh"
#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/math/fixed_mass.hpp"
#include "kvevict/ops/score_order.hpp"

namespace kvevict::cuda {

namespace detail {

struct WriteRanks {
  SortedRows sorted;
  ScoreView<MemorySpace::device> out;

  __device__ void operator()(const HeadTile& tile) const {
    const std::uint64_t* keys = sorted.head(tile.head);
    const std::int64_t rows = out.layout.rows(tile.head);
    float* ranks = out.head(tile.head);
    for_rows_of(tile, [&](std::int64_t k) {
      ranks[row_of_key(keys[k])] =
          static_cast<float>(static_cast<double>(rows - k) / static_cast<double>(rows));
    });
  }
};

/// One block for each head, from the last row of its order to the first.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    sum_remaining_mass(ScoreView<MemorySpace::device> scores, SortedRows sorted,
                       ProtectedHeads held, ScoreView<MemorySpace::device> out) {
  KVEVICT_SHARED(long long, warp_sums, [Threads / warp_size]);
  const std::int64_t h = blockIdx.x;
  const std::int64_t rows = scores.layout.rows(h);
  if (rows == 0) return;
  const float* head = scores.head(h);
  float* result = out.head(h);
  const std::uint64_t* keys = sorted.head(h);
  const ProtectedRows held_rows = held.head(h);
  const float largest = mass_of(head[row_of_key(keys[0])]);
  const int bits = mass_bits(rows);
  long long mine = 0;
  for (std::int64_t i = threadIdx.x; i < rows; i += Threads) {
    mine += fixed_mass(head[i], largest, bits);
  }
  const long long whole = reduce_block<Threads>(mine, Sum{});
  long long behind = 0;
  for (std::int64_t start = 0; start < rows; start += Threads) {
    const std::int64_t k = rows - 1 - (start + threadIdx.x);
    const std::int64_t row = k >= 0 ? row_of_key(keys[k]) : 0;
    const bool open = k >= 0 && !held_rows.contains(row);
    const long long mass = open ? fixed_mass(head[row], largest, bits) : 0;
    long long total = 0;
    const long long before = block_exclusive_sum<Threads>(mass, warp_sums, total);
    if (k >= 0) result[row] = open ? mass_fraction(behind + before + mass, whole) : 1.0f;
    behind += total;
  }
}

}  // namespace detail

inline void rank_scores_impl(Resources& res, ScoreView<MemorySpace::device> scores,
                             ScoreView<MemorySpace::device> out) {
  WorkspaceScope scope(res.workspace());
  const SortedRows sorted = sort_rows(res, scope, scores);
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "rank_scores", out.layout, detail::WriteRanks{sorted, out});
}

inline void remaining_mass_impl(Resources& res, ScoreView<MemorySpace::device> scores,
                                const Positions<MemorySpace::device>& positions,
                                const Protect& protect, ScoreView<MemorySpace::device> out) {
  constexpr int threads = 512;
  WorkspaceScope scope(res.workspace());
  const ProtectedHeads held = protected_heads(res, scope, positions, scores.layout, protect);
  const SortedRows sorted = sort_rows(res, scope, scores);
  if (res.workspace().counting()) return;
  launch(res, "sum_remaining_mass", detail::sum_remaining_mass<threads>, scores.layout.heads(),
         threads, 0, scores, sorted, held, out);
}

}  // namespace kvevict::cuda
