// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/row_maximum.cuh"
#include "kvevict/cuda/softmax_state.cuh"
#include "kvevict/math/exponential.hpp"
#include "kvevict/ops/lag_scores.hpp"

namespace kvevict::cuda {

namespace detail {

inline constexpr int lag_threads = 128;

/// Writes the smallest number of each channel over the rows [first, first + lag), and the inverse
/// of the range, negative for a constant channel. A NaN stays once it is there.
template <class T>
__device__ void measure_channels(const HeadView<const T, MemorySpace::device>& head,
                                 std::int64_t first, std::int64_t lag, double* lowest,
                                 double* inverse) {
  const int dim = static_cast<int>(head.dim);
  for (int c = static_cast<int>(threadIdx.x); c < dim; c += lag_threads) {
    float low = head.value(first, c);
    float high = low;
    for (std::int64_t i = first + 1; i < first + lag; ++i) {
      const float x = head.value(i, c);
      low = -Maximum{}(-low, -x);
      high = Maximum{}(high, x);
    }
    const double range = static_cast<double>(high) - static_cast<double>(low);
    lowest[c] = static_cast<double>(low);
    inverse[c] = range == 0.0 ? -1.0 : 1.0 / range;
  }
}

/// The standard deviation of a row over its channels, in all lanes of a warp.
template <class T>
__device__ float deviation_of_row(const HeadView<const T, MemorySpace::device>& head,
                                  std::int64_t row, const double* lowest, const double* inverse) {
  const int dim = static_cast<int>(head.dim);
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const auto scaled = [&](int c) {
    return (static_cast<double>(head.value(row, c)) - lowest[c]) * inverse[c];
  };
  double sum = 0.0;
  int count = 0;
  for (int c = lane; c < dim; c += warp_size) {
    if (inverse[c] < 0.0) continue;
    sum += scaled(c);
    ++count;
  }
  sum = reduce_lanes(sum, Sum{});
  count = reduce_lanes(count, Sum{});
  if (count < 2) return 0.0f;
  const double mean = sum / static_cast<double>(count);
  double squares = 0.0;
  for (int c = lane; c < dim; c += warp_size) {
    if (inverse[c] < 0.0) continue;
    const double distance = scaled(c) - mean;
    squares += distance * distance;
  }
  squares = reduce_lanes(squares, Sum{});
  const double deviation = sqrt(squares / static_cast<double>(count - 1));
  return deviation > static_cast<double>(FLT_MAX) ? FLT_MAX : static_cast<float>(deviation);
}

/// One block for each partition of a head that has a reference.
template <class T>
__global__ void __launch_bounds__(lag_threads)
    lag_deviations(RowsView<const T, MemorySpace::device> rows, LagPartitions partitions,
                   std::int64_t most, ScoreView<MemorySpace::device> out) {
  const std::int64_t h = blockIdx.x / most;
  const std::int64_t p = blockIdx.x % most;
  const auto head = rows.head(h);
  if (p >= partitions.scored(head.rows)) return;
  const int dim = static_cast<int>(head.dim);
  SharedCarver shared;
  double* lowest = shared.take<double>(dim);
  double* inverse = shared.take<double>(dim);
  measure_channels(head, partitions.first_row(p + 1), partitions.lag, lowest, inverse);
  __syncthreads();
  const std::int64_t first = partitions.first_row(p);
  for (std::int64_t i = threadIdx.x / warp_size; i < partitions.lag; i += lag_threads / warp_size) {
    const float deviation = deviation_of_row(head, first + i, lowest, inverse);
    if (threadIdx.x % warp_size == 0) out.head(h)[first + i] = deviation;
  }
}

/// Rows of no partition that has a reference.
static __global__ void __launch_bounds__(lag_threads)
    clear_other_rows(ScoreView<MemorySpace::device> scores, LagPartitions partitions) {
  const std::int64_t h = blockIdx.x;
  const std::int64_t rows = scores.layout.rows(h);
  const std::int64_t count = partitions.scored(rows);
  const std::int64_t begin = count == 0 ? 0 : partitions.skip_first;
  const std::int64_t end = count == 0 ? 0 : partitions.first_row(count);
  float* out = scores.head(h);
  for (std::int64_t i = threadIdx.x; i < begin; i += lag_threads) out[i] = 0.0f;
  for (std::int64_t i = end + threadIdx.x; i < rows; i += lag_threads) out[i] = 0.0f;
}

/// Replaces z[0 .. n) by half its softmax, by all threads of a block. Contains barriers.
__device__ inline void half_softmax(float* z, std::int64_t n) {
  float maximum = -float_infinity;
  for (std::int64_t i = threadIdx.x; i < n; i += lag_threads) {
    maximum = Maximum{}(maximum, z[i]);
  }
  maximum = reduce_block<lag_threads>(maximum, Maximum{});
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < n; i += lag_threads) {
    const float e = exp_nonpositive(z[i] - maximum);
    z[i] = e;
    sum += static_cast<double>(e);
  }
  sum = reduce_block<lag_threads>(sum, Sum{});
  const auto scale = static_cast<float>(0.5 / sum);
  for (std::int64_t i = threadIdx.x; i < n; i += lag_threads) z[i] *= scale;
}

/// One block for each partition of a head that has a reference: lag^2 comparisons for the ranks.
static __global__ void __launch_bounds__(lag_threads)
    score_partitions(ScoreView<MemorySpace::device> keys, ScoreView<MemorySpace::device> values,
                     LagPartitions partitions, std::int64_t most, bool ranks,
                     ScoreView<MemorySpace::device> scores) {
  const std::int64_t h = blockIdx.x / most;
  const std::int64_t p = blockIdx.x % most;
  if (p >= partitions.scored(scores.layout.rows(h))) return;
  const std::int64_t first = partitions.first_row(p);
  const std::int64_t lag = partitions.lag;
  float* s = keys.head(h) + first;
  float* of_values = values.head(h) + first;
  half_softmax(s, lag);
  half_softmax(of_values, lag);
  for (std::int64_t i = threadIdx.x; i < lag; i += lag_threads) s[i] += of_values[i];
  __syncthreads();
  float* to = scores.head(h) + first;
  for (std::int64_t i = threadIdx.x; i < lag; i += lag_threads) {
    const float own = s[i];
    std::int64_t worse = 0;
    for (std::int64_t j = 0; ranks && j < lag; ++j) {
      worse += s[j] < own || (s[j] == own && j > i) ? 1 : 0;
    }
    // One NaN makes a whole softmax NaN.
    to[i] = ranks && own == own ? static_cast<float>(worse) / static_cast<float>(lag) : own;
  }
}

/// The rows that have scores of their own.
struct ScoredRows {
  LagPartitions partitions;
  RowLayout<MemorySpace::device> layout;

  __device__ RowSpan operator()(std::int64_t head) const {
    const std::int64_t count = partitions.scored(layout.rows(head));
    if (count == 0) return {0, 0};
    return {partitions.skip_first, partitions.first_row(count)};
  }
};

/// One block for each head: the largest score for all other rows, or ranks by recency.
static __global__ void __launch_bounds__(score_threads)
    fill_other_rows(ScoreView<MemorySpace::device> scores, ScoredRows scored,
                    SplitMaxima<MaximumNumber> maxima) {
  const std::int64_t h = blockIdx.x;
  const std::int64_t rows = scores.layout.rows(h);
  const RowSpan own = scored(h);
  float* out = scores.head(h);
  if (own.begin == own.end) {
    const std::int64_t skipped = scored.partitions.skip_first;
    const std::int64_t first = skipped < rows ? skipped : rows;
    const auto count = static_cast<double>(rows - first);
    for (std::int64_t i = threadIdx.x; i < rows; i += score_threads) {
      // The first rows with the last.
      const std::int64_t from = i < first ? rows - 1 : i;
      out[i] = first < rows ? static_cast<float>(static_cast<double>(from - first) / count) : 0.0f;
    }
    return;
  }
  const float largest = maxima.of_head<score_threads>(h, rows);
  for (std::int64_t i = threadIdx.x; i < own.begin; i += score_threads) out[i] = largest;
  for (std::int64_t i = own.end + threadIdx.x; i < rows; i += score_threads) out[i] = largest;
}

}  // namespace detail

/// The rows come once from memory and twice from the caches; bound by double arithmetic.
template <class T>
void lag_deviation_impl(Resources& res, const RowsView<T, MemorySpace::device>& rows,
                        const LagPartitions& partitions, ScoreView<MemorySpace::device> out) {
  if (res.workspace().counting()) return;
  using Element = std::remove_const_t<T>;
  const RowsView<const Element, MemorySpace::device> read = rows;
  const std::int64_t most = partitions.scored(rows.layout().longest());
  launch(res, "clear_other_rows", detail::clear_other_rows, rows.heads(), detail::lag_threads, 0,
         out, partitions);
  launch(res, "lag_deviation", detail::lag_deviations<Element>, rows.heads() * most,
         detail::lag_threads, shared_bytes<double>(rows.dim()) * 2, read, partitions, most, out);
}

/// Reads and writes of scores, and lag comparisons for each ranked row.
inline void lag_scores_impl(Resources& res, ScoreView<MemorySpace::device> keys,
                            ScoreView<MemorySpace::device> values, const LagPartitions& partitions,
                            bool ranks, ScoreView<MemorySpace::device> scores) {
  WorkspaceScope scope(res.workspace());
  const auto maxima = carve_split_maxima<MaximumNumber>(scope, "lag_scores.maxima", scores.layout);
  if (res.workspace().counting()) return;
  const std::int64_t heads = scores.layout.heads();
  const std::int64_t most = partitions.scored(scores.layout.longest());
  launch(res, "score_partitions", detail::score_partitions, heads * most, detail::lag_threads, 0,
         keys, values, partitions, most, ranks, scores);
  const detail::ScoredRows scored{partitions, scores.layout};
  enqueue_split_maxima(res, "lag_scores.maxima", scores, scored, maxima);
  launch(res, "fill_other_rows", detail::fill_other_rows, heads, score_threads, 0, scores, scored,
         maxima);
}

}  // namespace kvevict::cuda
