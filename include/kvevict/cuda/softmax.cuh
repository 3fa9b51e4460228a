// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kvevict/core/scores.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/row_splits.cuh"
#include "kvevict/cuda/softmax_state.cuh"
#include "kvevict/ops/softmax.hpp"

namespace kvevict::cuda {

namespace detail {

inline constexpr int softmax_threads = 128;
/// Logits of a thread that are held in registers at once.
inline constexpr int softmax_values = 8;
inline constexpr int softmax_tile = softmax_threads * softmax_values;
/// At most 64 states of a head, which two rounds of one warp merge.
using SoftmaxSplits = RowSplits<softmax_tile, 2 * warp_size>;

/// The states of the splits of each head: states[head][split]. 4 bytes read for each score.
template <class Exponential>
__global__ void __launch_bounds__(softmax_threads)
    softmax_states(ScoreView<MemorySpace::device> scores, std::int64_t skip_first,
                   std::int64_t max_splits, SoftmaxState* states) {
  constexpr Exponential exponential;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t head = blockIdx.x / max_splits;
  const std::int64_t split = blockIdx.x % max_splits;
  const std::int64_t rows = scores.layout.rows(head) - skip_first;
  const std::int64_t length = SoftmaxSplits::length(rows);
  const std::int64_t begin = split * length;
  if (begin >= rows) return;
  const std::int64_t end = begin + length < rows ? begin + length : rows;
  const float* z = scores.head(head) + skip_first;

  SoftmaxState state = SoftmaxState::none();
  for (std::int64_t first = begin + thread; first < end; first += softmax_tile) {
    float values[softmax_values];
    KVEVICT_UNROLL
    for (int i = 0; i < softmax_values; ++i) {
      const std::int64_t row = first + i * softmax_threads;
      values[i] = row < end ? z[row] : -float_infinity;
    }
    state.add<softmax_values>(exponential, [&](int i) { return values[i]; });
  }
  KVEVICT_SHARED(SoftmaxState, of_warp, [softmax_threads / warp_size]);
  state = merge_lanes(exponential, state);
  if (thread % warp_size == 0) of_warp[thread / warp_size] = state;
  __syncthreads();
  if (thread != 0) return;
  for (int w = 1; w < softmax_threads / warp_size; ++w) state.merge(exponential, of_warp[w]);
  states[head * max_splits + split] = state;
}

/// What becomes of one logit.
__device__ inline float softmax_value(SoftmaxOutput output, float z, const SoftmaxState& all,
                                      double log_others, float inverse, float diagonal) {
  if (output == SoftmaxOutput::log_probability) {
    return static_cast<float>((static_cast<double>(z) - static_cast<double>(all.maximum)) -
                              log_others);
  }
  const float e = exp_nonpositive(z - all.maximum);
  if (output == SoftmaxOutput::exponential) return e;
  const float a = e * inverse;
  if (output == SoftmaxOutput::probability) return a;
  // Only an entry with more than half of the sum comes so near 1 that 1 - a loses its digits; it is
  // then the largest, and the only one.
  return 2.0 * static_cast<double>(e) > all.sum() ? diagonal : a * (1.0f - a);
}

/// Merges the states of each head and replaces its logits. 8 bytes for each score.
template <class Exponential>
__global__ void __launch_bounds__(softmax_threads)
    apply_softmax(ScoreView<MemorySpace::device> scores, std::int64_t skip_first,
                  SoftmaxOutput output, std::int64_t tiles, std::int64_t max_splits,
                  const SoftmaxState* states) {
  constexpr Exponential exponential;
  const int thread = static_cast<int>(threadIdx.x);
  const HeadTile tile = head_tile(blockIdx.x, tiles, softmax_tile, scores.layout);
  if (tile.count == 0) return;
  KVEVICT_SHARED(SoftmaxState, shared_state, [1]);
  const std::int64_t rows = scores.layout.rows(tile.head) - skip_first;
  if (thread < warp_size) {
    SoftmaxState state = SoftmaxState::none();
    const std::int64_t splits = rows > 0 ? SoftmaxSplits::count(rows) : 0;
    for (std::int64_t s = thread; s < splits; s += warp_size) {
      state.merge(exponential, states[tile.head * max_splits + s]);
    }
    state = merge_lanes(exponential, state);
    if (thread == 0) shared_state[0] = state;
  }
  __syncthreads();
  SoftmaxState all = shared_state[0];
  const bool nothing = all.sum() == 0.0;
  const bool broken = all.broken();
  const float outside = output == SoftmaxOutput::log_probability ? -float_infinity : 0.0f;
  const double log_others = output == SoftmaxOutput::log_probability ? std::log1p(all.others) : 0.0;
  const auto inverse = static_cast<float>(1.0 / all.sum());
  const auto diagonal = static_cast<float>(all.others / (all.sum() * all.sum()));

  float* z = scores.head(tile.head);
  KVEVICT_UNROLL
  for (int i = 0; i < softmax_values; ++i) {
    const int offset = thread + i * softmax_threads;
    if (offset >= tile.count) break;
    const std::int64_t row = tile.first + offset;
    float value = float_nan;
    if (row < skip_first || nothing) {
      value = outside;
    } else if (!broken) {
      value = softmax_value(output, z[row], all, log_others, inverse, diagonal);
    }
    z[row] = value;
  }
}

template <class Exponential>
void enqueue_softmax(Resources& res, const ScoreView<MemorySpace::device>& scores,
                     std::int64_t skip_first, SoftmaxOutput output, std::int64_t max_splits,
                     SoftmaxState* states) {
  const std::int64_t heads = scores.layout.heads();
  launch(res, "softmax_states", softmax_states<Exponential>, heads * max_splits, softmax_threads, 0,
         scores, skip_first, max_splits, states);
  const std::int64_t tiles = tiles_of(scores.layout.longest(), softmax_tile);
  launch(res, "apply_softmax", apply_softmax<Exponential>, heads * tiles, softmax_threads, 0,
         scores, skip_first, output, tiles, max_splits, states);
}

}  // namespace detail

/// Two launches: partial states of splits of each head, then the result in place. 12 bytes of
/// traffic for each score where 8 are unavoidable (the second read comes from the L2 cache when the
/// scores fit there), about 30 instructions: bound by bandwidth. Workspace: 16 bytes for each 1024
/// rows of the longest head, at most 1 KiB a head.
inline void softmax_impl(Resources& res, ScoreView<MemorySpace::device> scores,
                         std::int64_t skip_first, SoftmaxOutput output) {
  const std::int64_t rows = std::max<std::int64_t>(scores.layout.longest() - skip_first, 0);
  const std::int64_t max_splits = detail::SoftmaxSplits::most(rows);
  WorkspaceScope scope(res.workspace());
  auto* states = scope.carve<SoftmaxState>("softmax.states", scores.layout.heads() * max_splits);
  if (res.workspace().counting()) return;
  if (output == SoftmaxOutput::log_probability) {
    detail::enqueue_softmax<ExactExponential>(res, scores, skip_first, output, max_splits, states);
  } else {
    detail::enqueue_softmax<FastExponential>(res, scores, skip_first, output, max_splits, states);
  }
}

}  // namespace kvevict::cuda
