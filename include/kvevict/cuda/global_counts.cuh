// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvevict/cuda/select_top.cuh"
#include "kvevict/ops/global_heads.hpp"

namespace kvevict::cuda {

namespace detail {

using kvevict::detail::GlobalHead;

/// One block for each head: every bin of its histogram becomes the number of rows in it and in all
/// larger ones.
template <int Threads>
__global__ void __launch_bounds__(Threads) sum_from_top(unsigned* histograms) {
  KVEVICT_SHARED(unsigned, warp_sums, [Threads / warp_size]);
  constexpr int bins = radix_bins / Threads;
  unsigned* histogram = histograms + static_cast<std::int64_t>(blockIdx.x) * radix_bins;
  const int top = radix_bins - 1 - static_cast<int>(threadIdx.x) * bins;
  unsigned sum = 0;
  for (int b = 0; b < bins; ++b) sum += histogram[top - b];
  unsigned total = 0;
  unsigned above = block_exclusive_sum<Threads>(sum, warp_sums, total);
  for (int b = 0; b < bins; ++b) {
    above += histogram[top - b];
    histogram[top - b] = above;
  }
}

/// One thread for each bin of each group: rows that its heads would keep with the threshold at it.
static __global__ void __launch_bounds__(128)
    sum_over_heads(const unsigned* histograms, const GlobalHead* heads, std::int64_t group_heads,
                   std::int64_t* sums) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * 128 + threadIdx.x;
  const std::int64_t first = at / radix_bins * group_heads;
  const std::int64_t bin = at % radix_bins;
  std::int64_t sum = 0;
  for (std::int64_t h = first; h < first + group_heads; ++h) {
    sum += heads[h].clamped(heads[h].above + histograms[h * radix_bins + bin]);
  }
  sums[at] = sum;
}

/// One block for each group: the largest digit whose sum reaches the total is fixed for all its
/// heads; their counts move on and their histograms are cleared. Sums only grow as the digit falls.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    fix_common_digit(const std::int64_t* sums, const std::int64_t* totals, int digit,
                     RadixState* states, unsigned* histograms, GlobalHead* heads,
                     std::int64_t group_heads) {
  KVEVICT_SHARED(int, found, [1]);
  if (threadIdx.x == 0) found[0] = 0;
  __syncthreads();
  const std::int64_t g = blockIdx.x;
  for (int bin = static_cast<int>(threadIdx.x); bin < radix_bins; bin += Threads) {
    if (bin <= static_cast<int>(radix_digit_mask(digit)) &&
        sums[g * radix_bins + bin] >= totals[g]) {
      atomicMax(found, bin);
    }
  }
  __syncthreads();
  const int bin = found[0];
  const std::int64_t first = g * group_heads;
  for (std::int64_t h = first + threadIdx.x; h < first + group_heads; h += Threads) {
    const unsigned* histogram = histograms + h * radix_bins;
    const unsigned above = bin + 1 < radix_bins ? histogram[bin + 1] : 0;
    heads[h].equal = histogram[bin] - above;
    heads[h].above += above;
  }
  __syncthreads();
  unsigned* cleared = histograms + first * radix_bins;
  for (std::int64_t i = threadIdx.x; i < group_heads * radix_bins; i += Threads) cleared[i] = 0;
  if (threadIdx.x == 0) {
    states[g].prefix |= static_cast<std::uint32_t>(bin) << radix_shift(digit);
    states[g].mask |= radix_digit_mask(digit) << radix_shift(digit);
  }
}

/// Adds sums on the device up over all processes: through host memory, so it waits.
inline void add_over_ranks(Resources& res, const HeadRanks& ranks, std::int64_t* sums,
                           std::int64_t count, std::int64_t* host) {
  if (ranks.alone()) return;
  const auto bytes = static_cast<std::size_t>(count) * sizeof *sums;
  require_success(cudaMemcpyAsync(host, sums, bytes, cudaMemcpyDeviceToHost, res.stream()),
                  "cudaMemcpyAsync");
  res.wait();
  ranks.add(host, count);
  require_success(cudaMemcpyAsync(sums, host, bytes, cudaMemcpyHostToDevice, res.stream()),
                  "cudaMemcpyAsync");
}

}  // namespace detail

/// As on the host: one threshold for each group by descending through the digits of the keys, with
/// one histogram for each head so that floors and caps apply head by head. Waits for the counts.
inline void global_counts_impl(Resources& res, const AllocationInput<MemorySpace::device>& input,
                               const ThresholdGroups& groups, std::int64_t* counts) {
  constexpr int threads = 256;
  const ScoreView<MemorySpace::device>& scores = input.scores;
  const std::int64_t heads = scores.layout.heads();
  const std::int64_t group_count = groups.count(heads);
  const std::int64_t splits = tiles_of(scores.layout.longest(), radix_split_rows);
  WorkspaceScope host_scope(res.host_workspace());
  WorkspaceScope scope(res.workspace());
  auto* held = host_scope.carve<std::int64_t>("global_counts.protected", heads);
  auto* host_heads = host_scope.carve<detail::GlobalHead>("global_counts.host_heads", heads);
  auto* host_totals = host_scope.carve<std::int64_t>("global_counts.host_totals", group_count);
  auto* scratch = host_scope.carve<std::int64_t>("global_counts.scratch",
                                                 kvevict::detail::threshold_scratch(groups, heads));
  auto* host_sums = host_scope.carve<std::int64_t>(
      "global_counts.host_sums", groups.ranks.alone() ? 0 : group_count * radix_bins);
  auto* device_heads = scope.carve<detail::GlobalHead>("global_counts.heads", heads);
  auto* histograms = scope.carve<unsigned>("global_counts.histograms", heads * radix_bins);
  auto* sums = scope.carve<std::int64_t>("global_counts.sums", group_count * radix_bins);
  auto* totals = scope.carve<std::int64_t>("global_counts.totals", group_count);
  auto* states = scope.carve<RadixState>("global_counts.states", group_count);
  const ProtectedHeads ranges =
      protected_heads(res, scope, input.positions, scores.layout, input.protect);
  protected_counts_impl(res, input.positions, input.protect, scores.layout, held);
  if (res.workspace().counting()) return;

  kvevict::detail::start_global_heads(scores.layout.host(), held, groups, host_heads, host_totals,
                                      scratch);
  if (heads == 0) return;

  const auto bytes = static_cast<std::size_t>(heads) * sizeof(detail::GlobalHead);
  const auto histogram_bytes = static_cast<std::size_t>(heads * radix_bins) * sizeof(unsigned);
  const auto total_bytes = static_cast<std::size_t>(group_count) * sizeof *totals;
  const auto state_bytes = static_cast<std::size_t>(group_count) * sizeof *states;
  require_success(
      cudaMemcpyAsync(device_heads, host_heads, bytes, cudaMemcpyHostToDevice, res.stream()),
      "cudaMemcpyAsync");
  require_success(
      cudaMemcpyAsync(totals, host_totals, total_bytes, cudaMemcpyHostToDevice, res.stream()),
      "cudaMemcpyAsync");
  require_success(cudaMemsetAsync(histograms, 0, histogram_bytes, res.stream()), "cudaMemsetAsync");
  require_success(cudaMemsetAsync(states, 0, state_bytes, res.stream()), "cudaMemsetAsync");
  for (int digit = 0; digit < radix_digits; ++digit) {
    launch(res, "count_split_digits", detail::count_split_digits<threads>, heads * splits, threads,
           0, scores, ranges, states, groups.heads, splits, digit, histograms,
           static_cast<Counters*>(nullptr));
    launch(res, "sum_from_top", detail::sum_from_top<threads>, heads, threads, 0, histograms);
    launch(res, "sum_over_heads", detail::sum_over_heads, group_count * (radix_bins / 128), 128, 0,
           histograms, device_heads, groups.heads, sums);
    detail::add_over_ranks(res, groups.ranks, sums, group_count * radix_bins, host_sums);
    launch(res, "fix_common_digit", detail::fix_common_digit<threads>, group_count, threads, 0,
           sums, totals, digit, states, histograms, device_heads, groups.heads);
  }
  require_success(
      cudaMemcpyAsync(host_heads, device_heads, bytes, cudaMemcpyDeviceToHost, res.stream()),
      "cudaMemcpyAsync");
  res.wait();
  kvevict::detail::finish_global_heads(host_heads, heads, groups, host_totals, counts, scratch);
}

}  // namespace kvevict::cuda
