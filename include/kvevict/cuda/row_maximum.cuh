// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "kvevict/core/scores.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/cuda/row_splits.cuh"
#include "kvevict/cuda/score_tiles.cuh"

namespace kvevict::cuda {

/// Rows [begin, end) of a head.
struct RowSpan {
  std::int64_t begin;
  std::int64_t end;
};

/// The largest score among a range of each head's rows, as the maxima of splits that a kernel
/// combines when it needs the result. `Combine` is Maximum or MaximumNumber (reduce.cuh).
template <class Combine>
struct SplitMaxima {
  using Splits = RowSplits<2048, 64>;
  static constexpr bool passes_nan = std::is_same_v<Combine, MaximumNumber>;

  float* data;          ///< [head][splits]
  std::int64_t splits;  ///< room of each head

  /// Of no rows.
  __device__ static float nothing() { return passes_nan ? nanf("") : -INFINITY; }

  /// By all threads of a block. Contains barriers.
  template <int Threads>
  __device__ float of_head(std::int64_t head, std::int64_t rows) const {
    float largest = nothing();
    const std::int64_t count = rows > 0 ? Splits::count(rows) : 0;
    for (std::int64_t s = threadIdx.x; s < count; s += Threads) {
      largest = Combine{}(largest, data[head * splits + s]);
    }
    return reduce_block<Threads>(largest, Combine{});
  }
};

namespace detail {

/// One block for each split; `range(head)` is asked by all its threads.
template <class Combine, class Range>
__global__ void __launch_bounds__(score_threads)
    find_split_maxima(ScoreView<MemorySpace::device> scores, Range range,
                      SplitMaxima<Combine> maxima) {
  using Splits = typename SplitMaxima<Combine>::Splits;
  constexpr int ahead = 16;  // loads on their way
  const std::int64_t head = blockIdx.x / maxima.splits;
  const std::int64_t split = blockIdx.x % maxima.splits;
  const std::int64_t length = Splits::length(scores.layout.rows(head));
  if (split * length >= scores.layout.rows(head)) return;
  const RowSpan rows = range(head);
  const std::int64_t begin = rows.begin > split * length ? rows.begin : split * length;
  const std::int64_t end = rows.end < (split + 1) * length ? rows.end : (split + 1) * length;
  const float* values = scores.head(head);
  float largest = maxima.nothing();
  for (std::int64_t first = begin + threadIdx.x; first < end; first += ahead * score_threads) {
    float next[ahead];
    KVEVICT_UNROLL
    for (int i = 0; i < ahead; ++i) {
      const std::int64_t row = first + i * score_threads;
      next[i] = row < end ? values[row] : maxima.nothing();
    }
    KVEVICT_UNROLL
    for (int i = 0; i < ahead; ++i) largest = Combine{}(largest, next[i]);
  }
  largest = reduce_block<score_threads>(largest, Combine{});
  if (threadIdx.x == 0) maxima.data[head * maxima.splits + split] = largest;
}

}  // namespace detail

template <class Combine>
SplitMaxima<Combine> carve_split_maxima(WorkspaceScope& scope, std::string_view name,
                                        const RowLayout<MemorySpace::device>& layout) {
  const std::int64_t splits = SplitMaxima<Combine>::Splits::most(layout.longest());
  return {scope.carve<float>(name, layout.heads() * splits), splits};
}

template <class Combine, class Range>
void enqueue_split_maxima(Resources& res, const char* name,
                          const ScoreView<MemorySpace::device>& scores, const Range& range,
                          const SplitMaxima<Combine>& maxima) {
  launch(res, name, detail::find_split_maxima<Combine, Range>,
         scores.layout.heads() * maxima.splits, score_threads, 0, scores, range, maxima);
}

}  // namespace kvevict::cuda
