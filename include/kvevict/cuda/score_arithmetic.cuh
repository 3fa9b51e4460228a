// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/cuda/reduce.cuh"
#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/cuda/softmax_state.cuh"
#include "kvevict/ops/score_arithmetic.hpp"

namespace kvevict::cuda {

namespace detail {

/// What a score counts for in a sum.
__device__ inline double amount_of(float score, bool roots) {
  const auto value = static_cast<double>(score);
  return roots ? value * value : value;
}

__device__ inline float share_of(float score, bool roots, double sum) {
  if (isinf(sum)) return float_nan;  // a division would make the shares of others 0
  return sum == 0.0 ? 0.0f : static_cast<float>(amount_of(score, roots) / sum);
}

/// Windows up to this length have a warp each, longer ones a block.
inline constexpr std::int64_t warp_window = 256;

/// One warp for each window of a head: in place, since all its lanes have read when the sum is
/// known.
static __global__ void __launch_bounds__(128)
    shares_of_warps(ScoreView<MemorySpace::device> scores, std::int64_t windows,
                    std::int64_t window, bool roots) {
  const std::int64_t index = blockIdx.x * std::int64_t{4} + threadIdx.x / warp_size;
  const std::int64_t head = index / windows;
  if (head >= scores.layout.heads()) return;
  const std::int64_t begin = index % windows * window;
  const std::int64_t rows = scores.layout.rows(head);
  if (begin >= rows) return;
  const std::int64_t end = begin + window < rows ? begin + window : rows;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  float* values = scores.head(head);
  double sum = 0.0;
  for (std::int64_t i = begin + lane; i < end; i += warp_size) sum += amount_of(values[i], roots);
  sum = reduce_lanes(sum, Sum{});
  for (std::int64_t i = begin + lane; i < end; i += warp_size) {
    values[i] = share_of(values[i], roots, sum);
  }
}

/// One block for each window of a head.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    shares_of_blocks(ScoreView<MemorySpace::device> scores, std::int64_t windows,
                     std::int64_t window, bool roots) {
  const std::int64_t head = blockIdx.x / windows;
  const std::int64_t begin = blockIdx.x % windows * window;
  const std::int64_t rows = scores.layout.rows(head);
  if (begin >= rows) return;
  const std::int64_t end = begin + window < rows ? begin + window : rows;
  float* values = scores.head(head);
  double sum = 0.0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += Threads) {
    sum += amount_of(values[i], roots);
  }
  sum = reduce_block<Threads>(sum, Sum{});
  for (std::int64_t i = begin + threadIdx.x; i < end; i += Threads) {
    values[i] = share_of(values[i], roots, sum);
  }
}

/// One block for each head.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    standardise_heads(ScoreView<MemorySpace::device> scores, RowRange range) {
  const std::int64_t head = blockIdx.x;
  const std::int64_t rows = scores.layout.rows(head);
  const std::int64_t begin = range.begin(rows);
  const std::int64_t end = range.end(rows);
  const auto count = static_cast<double>(end - begin);
  float* values = scores.head(head);
  double sum = 0.0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += Threads) {
    sum += static_cast<double>(values[i]);
  }
  const double mean = reduce_block<Threads>(sum, Sum{}) / count;
  double squares = 0.0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += Threads) {
    const double distance = static_cast<double>(values[i]) - mean;
    squares += distance * distance;
  }
  squares = reduce_block<Threads>(squares, Sum{});
  const double deviation = count > 1.0 ? sqrt(squares / (count - 1.0)) : 0.0;
  const double unit = kvevict::detail::standard_unit(mean, deviation);
  for (std::int64_t i = threadIdx.x; i < rows; i += Threads) {
    values[i] = i >= begin && i < end
                    ? static_cast<float>((static_cast<double>(values[i]) - mean) / unit)
                    : 0.0f;
  }
}

}  // namespace detail

/// Two reads of the scores, the second from the caches, and one write; a window of all rows of a
/// head has one block.
inline void window_shares_impl(Resources& res, ScoreView<MemorySpace::device> scores,
                               std::int64_t window, ReductionDomain domain) {
  if (res.workspace().counting()) return;
  const RowLayout<MemorySpace::device>& layout = scores.layout;
  const std::int64_t longest = layout.longest();
  if (longest == 0) return;
  const bool roots = domain == ReductionDomain::square_root;
  const std::int64_t length = window == 0 ? longest : window;
  const std::int64_t windows = tiles_of(longest, length);
  // By the window alone, whatever the longest of these heads: sums have one order.
  if (window != 0 && window <= detail::warp_window) {
    launch(res, "window_shares", detail::shares_of_warps, tiles_of(layout.heads() * windows, 4),
           128, 0, scores, windows, length, roots);
  } else {
    constexpr int threads = 512;
    launch(res, "window_shares", detail::shares_of_blocks<threads>, layout.heads() * windows,
           threads, 0, scores, windows, length, roots);
  }
}

/// Three reads of the scores, two of them from the caches, and one write; a block for each head.
inline void standardise_impl(Resources& res, const RowRange& range,
                             ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  constexpr int threads = 512;
  launch(res, "standardise", detail::standardise_heads<threads>, scores.layout.heads(), threads, 0,
         scores, range);
}

}  // namespace kvevict::cuda
