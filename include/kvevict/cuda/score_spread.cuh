// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/math/fixed_mass.hpp"
#include "kvevict/ops/score_spread.hpp"

namespace kvevict::cuda {

namespace detail {

/// One block for each head.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    sum_spreads(ScoreView<MemorySpace::device> scores, Spread spread, double* out) {
  const std::int64_t h = blockIdx.x;
  const std::int64_t rows = scores.layout.rows(h);
  const float* head = scores.head(h);
  float mine = 0.0f;
  for (std::int64_t i = threadIdx.x; i < rows; i += Threads) {
    mine = Maximum{}(mine, mass_of(head[i]));
  }
  const float largest = reduce_block<Threads>(mine, Maximum{});
  kvevict::detail::SpreadSums sums;
  if (largest > 0.0f) {
    for (std::int64_t i = threadIdx.x; i < rows; i += Threads) {
      const double x = static_cast<double>(mass_of(head[i])) / static_cast<double>(largest);
      sums.mass += x;
      sums.weighted += kvevict::detail::spread_term(spread, x);
    }
  }
  sums.mass = reduce_block<Threads>(sums.mass, Sum{});
  sums.weighted = reduce_block<Threads>(sums.weighted, Sum{});
  if (threadIdx.x == 0) out[h] = kvevict::detail::rows_of_spread(spread, sums, rows);
}

}  // namespace detail

/// Waits for the result.
inline void effective_rows_impl(Resources& res, ScoreView<MemorySpace::device> scores,
                                Spread spread, double* out) {
  constexpr int threads = 256;
  const std::int64_t heads = scores.layout.heads();
  WorkspaceScope scope(res.workspace());
  auto* device_out = scope.carve<double>("effective_rows.out", heads);
  if (res.workspace().counting() || heads == 0) return;
  launch(res, "sum_spreads", detail::sum_spreads<threads>, heads, threads, 0, scores, spread,
         device_out);
  require_success(cudaMemcpyAsync(out, device_out, static_cast<std::size_t>(heads) * sizeof *out,
                                  cudaMemcpyDeviceToHost, res.stream()),
                  "cudaMemcpyAsync");
  res.wait();
}

}  // namespace kvevict::cuda
