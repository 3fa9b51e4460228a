// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/scores.hpp"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/protect.cuh"
#include "kvevict/math/ordered_key.hpp"
#include "kvevict/math/radix_digits.hpp"

namespace kvevict::cuda {

/// What is known of the threshold of one head: keys that agree with `prefix` under `mask` are still
/// undecided, and the best `wanted` of them are in. When all digits are fixed, keys above `prefix`
/// are in, and the first `wanted` of those equal to it.
struct RadixState {
  std::uint32_t prefix;
  std::uint32_t mask;
  std::int64_t wanted;
};

/// Rows that one block of a split pass reads: few enough that one long head fills a device, many
/// enough that clearing and adding up the histogram does not matter.
inline constexpr std::int64_t radix_split_rows = 16384;

namespace detail {

/// Exclusive sum over the threads of a block in thread order; `total` is the whole sum.
/// `warp_sums` holds Threads / 32 elements of shared memory that the block may not be using.
template <int Threads, class Sum>
__device__ Sum block_exclusive_sum(Sum value, Sum* warp_sums, Sum& total) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  Sum inclusive = value;
  for (int step = 1; step < warp_size; step *= 2) {
    const Sum below = __shfl_up_sync(full_warp, inclusive, static_cast<unsigned>(step));
    if (lane >= step) inclusive += below;
  }
  __syncthreads();
  if (lane == warp_size - 1) warp_sums[warp] = inclusive;
  __syncthreads();
  Sum before = 0;
  total = 0;
  for (int w = 0; w < Threads / warp_size; ++w) {
    if (w == warp) before = total;
    total += warp_sums[w];
  }
  return before + inclusive - value;
}

/// Counts the digit of every undecided open row of [first, last) in the shared `histogram`, and the
/// NaN among all rows. The caller synchronises before and after.
template <int Threads>
__device__ unsigned count_digits(const float* scores, std::int64_t first, std::int64_t last,
                                 const ProtectedRows& held, const RadixState& state, int digit,
                                 unsigned* histogram) {
  const int shift = radix_shift(digit);
  const std::uint32_t digit_mask = radix_digit_mask(digit);
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  unsigned nans = 0;
  // Whole warps stay in the loop, for the vote.
  for (std::int64_t start = first; start < last; start += Threads) {
    const std::int64_t i = start + threadIdx.x;
    const bool inside = i < last;
    const float score = inside ? scores[i] : 0.0f;
    const std::uint32_t key = ordered_key(score);
    if (score != score) ++nans;
    const bool counted = inside && (key & state.mask) == state.prefix && !held.contains(i);
    const int bin = counted ? static_cast<int>((key >> shift) & digit_mask) : -1;
    // Scores that share a digit, as equal ones do, would queue at one counter.
    const int leader = __shfl_sync(full_warp, bin, 0);
    if (__all_sync(full_warp, bin == leader ? 1 : 0) != 0) {
      if (lane == 0 && bin >= 0) atomicAdd(histogram + bin, 32u);
    } else if (bin >= 0) {
      atomicAdd(histogram + bin, 1u);
    }
  }
  return nans;
}

template <int Threads>
__device__ void clear_histogram(unsigned* histogram) {
  for (int bin = static_cast<int>(threadIdx.x); bin < radix_bins; bin += Threads) {
    histogram[bin] = 0;
  }
}

/// Fixes the next digit: the largest whose rows, with those of all larger digits, are at least as
/// many as wanted. `next` is shared; every thread sees it after the barrier at the end.
template <int Threads>
__device__ void fix_digit(const unsigned* histogram, const RadixState& state, int digit,
                          long long* warp_sums, RadixState* next) {
  constexpr int bins = radix_bins / Threads;
  // Thread 0 has the largest digits.
  const int top = radix_bins - 1 - static_cast<int>(threadIdx.x) * bins;
  long long sum = 0;
  for (int b = 0; b < bins; ++b) sum += histogram[top - b];
  long long total = 0;
  long long above = block_exclusive_sum<Threads>(sum, warp_sums, total);
  const long long wanted = state.wanted;
  if (above < wanted && above + sum >= wanted) {
    int bin = top;
    while (above + histogram[bin] < wanted) above += histogram[bin--];
    const int shift = radix_shift(digit);
    next->prefix = state.prefix | (static_cast<std::uint32_t>(bin) << shift);
    next->mask = state.mask | (radix_digit_mask(digit) << shift);
    next->wanted = wanted - above;
  }
  __syncthreads();
}

/// Rows that are in whatever the ties, and rows equal to the threshold.
struct Chosen {
  long long sure = 0;
  long long ties = 0;
};

/// Goes through the rows [first, last) in order and calls `write(row, place)` for each that is
/// kept, `before` being the counts of the rows before. Returns the counts up to `last`, the same
/// for all threads. `warp_sums` is shared, Threads / 32 elements.
template <int Threads, class Write>
__device__ Chosen for_each_kept(const float* scores, std::int64_t first, std::int64_t last,
                                const ProtectedRows& held, const RadixState& cut, Chosen before,
                                unsigned* warp_sums, Write&& write) {
  constexpr int rows = 4;  // of each thread and step
  for (std::int64_t start = first; start < last; start += Threads * rows) {
    const std::int64_t mine = start + static_cast<std::int64_t>(threadIdx.x) * rows;
    unsigned sure = 0;  // a bit for each row
    unsigned tie = 0;
    KVEVICT_UNROLL
    for (int r = 0; r < rows; ++r) {
      const std::int64_t i = mine + r;
      if (i >= last) continue;
      const std::uint32_t key = ordered_key(scores[i]);
      if (held.contains(i) || (cut.wanted > 0 && key > cut.prefix)) {
        sure |= 1u << r;
      } else if (cut.wanted > 0 && key == cut.prefix) {
        tie |= 1u << r;
      }
    }
    // Both counts of a step fit 16 bits: one sum serves for both.
    const unsigned packed =
        static_cast<unsigned>(__popc(sure)) | (static_cast<unsigned>(__popc(tie)) << 16);
    unsigned total = 0;
    const unsigned earlier = block_exclusive_sum<Threads>(packed, warp_sums, total);
    long long sure_before = before.sure + (earlier & 0xffffu);
    long long ties_before = before.ties + (earlier >> 16);
    KVEVICT_UNROLL
    for (int r = 0; r < rows; ++r) {
      const bool is_sure = ((sure >> r) & 1u) != 0;
      const bool is_tie = ((tie >> r) & 1u) != 0;
      if (is_sure || (is_tie && ties_before < cut.wanted)) {
        write(mine + r, sure_before + (ties_before < cut.wanted ? ties_before : cut.wanted));
      }
      sure_before += is_sure ? 1 : 0;
      ties_before += is_tie ? 1 : 0;
    }
    before.sure += total & 0xffffu;
    before.ties += total >> 16;
  }
  return before;
}

}  // namespace detail
}  // namespace kvevict::cuda
