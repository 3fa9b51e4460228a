// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cuda/radix_select.cuh"
#include "kvevict/ops/select_top.hpp"

namespace kvevict::cuda {

namespace detail {

/// Heads up to here are selected by one block each: four reads, of which all but the first come
/// from the caches.
inline constexpr std::int64_t one_block_rows = 4 * radix_split_rows;

using DeviceLayout = RowLayout<MemorySpace::device>;
using DeviceScores = ScoreView<MemorySpace::device>;

/// Where the kept rows of a head are written; its protected rows may be more than it keeps only
/// against the contract, and nothing is written beyond its own then.
struct KeptRows {
  std::int32_t* out;
  long long count;

  __device__ void operator()(std::int64_t row, long long place) const {
    if (place < count) out[place] = static_cast<std::int32_t>(row);
  }
};

KVEVICT_HOST_DEVICE inline std::int64_t open_rows_wanted(const ProtectedHeads& held,
                                                         std::int64_t head, std::int64_t count) {
  const std::int64_t wanted = count - held.held_rows(head);
  return wanted > 0 ? wanted : 0;
}

/// One block for each head.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    select_whole_heads(DeviceScores scores, ProtectedHeads held, DeviceLayout kept,
                       std::int32_t* indices, Counters* counters) {
  KVEVICT_SHARED(unsigned, histogram, [radix_bins]);
  KVEVICT_SHARED(long long, wide_sums, [Threads / warp_size]);
  KVEVICT_SHARED(unsigned, warp_sums, [Threads / warp_size]);
  KVEVICT_SHARED(RadixState, next, [1]);
  const std::int64_t h = blockIdx.x;
  const std::int64_t rows = scores.layout.rows(h);
  const float* head = scores.head(h);
  const ProtectedRows held_rows = held.head(h);
  RadixState state{0, 0, open_rows_wanted(held, h, kept.rows(h))};
  for (int digit = 0; digit < radix_digits; ++digit) {
    if (digit > 0 && state.wanted == 0) break;  // the first pass also counts NaN
    clear_histogram<Threads>(histogram);
    __syncthreads();
    const unsigned nans = count_digits<Threads>(head, 0, rows, held_rows, state, digit, histogram);
    if (digit == 0 && nans > 0) {
      atomicAdd(&counters->nan_scores, static_cast<unsigned long long>(nans));
    }
    __syncthreads();
    if (state.wanted == 0) break;
    fix_digit<Threads>(histogram, state, digit, wide_sums, next);
    state = next[0];
    __syncthreads();
  }
  for_each_kept<Threads>(head, 0, rows, held_rows, state, Chosen{}, warp_sums,
                         KeptRows{indices + kept.offset(h), kept.rows(h)});
}

static __global__ void __launch_bounds__(128)
    start_states(ProtectedHeads held, DeviceLayout kept, RadixState* states) {
  const std::int64_t h = static_cast<std::int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (h >= kept.heads()) return;
  states[h] = RadixState{0, 0, open_rows_wanted(held, h, kept.rows(h))};
}

/// Adds the digits of one split of a head to the head's histogram. `state_heads` consecutive heads
/// share a state.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    count_split_digits(DeviceScores scores, ProtectedHeads held, const RadixState* states,
                       std::int64_t state_heads, std::int64_t splits, int digit,
                       unsigned* histograms, Counters* counters) {
  KVEVICT_SHARED(unsigned, histogram, [radix_bins]);
  const HeadTile tile = head_tile(blockIdx.x, splits, radix_split_rows, scores.layout);
  if (tile.count == 0) return;
  clear_histogram<Threads>(histogram);
  __syncthreads();
  const unsigned nans = count_digits<Threads>(scores.head(tile.head), tile.first,
                                              tile.first + tile.count, held.head(tile.head),
                                              states[tile.head / state_heads], digit, histogram);
  if (counters != nullptr && digit == 0 && nans > 0) {
    atomicAdd(&counters->nan_scores, static_cast<unsigned long long>(nans));
  }
  __syncthreads();
  unsigned* sums = histograms + tile.head * radix_bins;
  for (int bin = static_cast<int>(threadIdx.x); bin < radix_bins; bin += Threads) {
    if (histogram[bin] != 0) atomicAdd(sums + bin, histogram[bin]);
  }
}

/// One block for each head: fixes the digit and clears the histogram for the next one.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    fix_head_digits(RadixState* states, int digit, unsigned* histograms) {
  KVEVICT_SHARED(long long, wide_sums, [Threads / warp_size]);
  KVEVICT_SHARED(RadixState, next, [1]);
  const std::int64_t h = blockIdx.x;
  unsigned* histogram = histograms + h * radix_bins;
  const RadixState state = states[h];
  if (threadIdx.x == 0) next[0] = state;  // stays when nothing is wanted
  __syncthreads();
  fix_digit<Threads>(histogram, state, digit, wide_sums, next);
  if (threadIdx.x == 0) states[h] = next[0];
  clear_histogram<Threads>(histogram);
}

struct IgnoreRows {
  __device__ void operator()(std::int64_t, long long) const {}
};

template <int Threads>
__global__ void __launch_bounds__(Threads)
    count_split_rows(DeviceScores scores, ProtectedHeads held, const RadixState* states,
                     std::int64_t splits, Chosen* counts) {
  KVEVICT_SHARED(unsigned, warp_sums, [Threads / warp_size]);
  const HeadTile tile = head_tile(blockIdx.x, splits, radix_split_rows, scores.layout);
  const Chosen chosen = for_each_kept<Threads>(
      scores.head(tile.head), tile.first, tile.first + tile.count, held.head(tile.head),
      states[tile.head], Chosen{}, warp_sums, IgnoreRows{});
  if (threadIdx.x == 0) counts[blockIdx.x] = chosen;
}

template <int Threads>
__global__ void __launch_bounds__(Threads)
    write_split_rows(DeviceScores scores, ProtectedHeads held, const RadixState* states,
                     std::int64_t splits, const Chosen* counts, DeviceLayout kept,
                     std::int32_t* indices) {
  KVEVICT_SHARED(unsigned, warp_sums, [Threads / warp_size]);
  const HeadTile tile = head_tile(blockIdx.x, splits, radix_split_rows, scores.layout);
  if (tile.count == 0) return;
  Chosen before;
  for (std::int64_t s = tile.head * splits; s < static_cast<std::int64_t>(blockIdx.x); ++s) {
    before.sure += counts[s].sure;
    before.ties += counts[s].ties;
  }
  for_each_kept<Threads>(scores.head(tile.head), tile.first, tile.first + tile.count,
                         held.head(tile.head), states[tile.head], before, warp_sums,
                         KeptRows{indices + kept.offset(tile.head), kept.rows(tile.head)});
}

}  // namespace detail

/// Shorter heads: one launch, one block for each head. Longer ones are split over blocks: a
/// histogram pass for each of three digits, then one pass that counts and one that writes. Reads
/// the scores four times, five when split; then with 8 KiB of histogram for each head.
inline void select_top_impl(Resources& res, ScoreView<MemorySpace::device> scores,
                            const Positions<MemorySpace::device>& positions, const Protect& protect,
                            const RowLayout<MemorySpace::device>& kept, std::int32_t* indices) {
  constexpr int threads = 256;
  const std::int64_t heads = scores.layout.heads();
  const std::int64_t longest = scores.layout.longest();
  const bool split = longest > detail::one_block_rows;
  const std::int64_t splits = split ? tiles_of(longest, radix_split_rows) : 0;
  WorkspaceScope scope(res.workspace());
  const ProtectedHeads held = protected_heads(res, scope, positions, scores.layout, protect);
  auto* states = scope.carve<RadixState>("select_top.states", split ? heads : 0);
  auto* histograms = scope.carve<unsigned>("select_top.histograms", split ? heads * radix_bins : 0);
  auto* counts = scope.carve<detail::Chosen>("select_top.counts", heads * splits);
  if (res.workspace().counting() || heads == 0) return;
  if (!split) {
    constexpr int wide = 512;
    launch(res, "select_whole_heads", detail::select_whole_heads<wide>, heads, wide, 0, scores,
           held, kept, indices, res.counters());
    return;
  }
  launch(res, "start_states", detail::start_states, tiles_of(heads, 128), 128, 0, held, kept,
         states);
  require_success(cudaMemsetAsync(histograms, 0,
                                  static_cast<std::size_t>(heads * radix_bins) * sizeof(unsigned),
                                  res.stream()),
                  "cudaMemsetAsync");
  for (int digit = 0; digit < radix_digits; ++digit) {
    launch(res, "count_split_digits", detail::count_split_digits<threads>, heads * splits, threads,
           0, scores, held, states, std::int64_t{1}, splits, digit, histograms, res.counters());
    launch(res, "fix_head_digits", detail::fix_head_digits<threads>, heads, threads, 0, states,
           digit, histograms);
  }
  launch(res, "count_split_rows", detail::count_split_rows<threads>, heads * splits, threads, 0,
         scores, held, states, splits, counts);
  launch(res, "write_split_rows", detail::write_split_rows<threads>, heads * splits, threads, 0,
         scores, held, states, splits, counts, kept, indices);
}

}  // namespace kvevict::cuda
