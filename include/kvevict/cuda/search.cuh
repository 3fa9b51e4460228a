// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/positions.hpp"
#include "kvevict/cuda/compat.cuh"

namespace kvevict::cuda {

/// The first i in [begin, end) for which `before(i)` is false, `end` if there is none; it is true
/// for all i in front of that. By all `Threads` threads of a block: each round looks at as many
/// places, so that two rounds of memory latency search Threads^2 entries. Contains barriers.
template <int Threads, class Before>
__device__ std::int64_t partition_point(std::int64_t begin, std::int64_t end,
                                        const Before& before) {
  while (begin < end) {
    const std::int64_t step = (end - begin + Threads - 1) / Threads;
    const std::int64_t place = begin + threadIdx.x * step;
    const int hits = __syncthreads_count(place < end && before(place) ? 1 : 0);
    if (hits == 0) return begin;
    const std::int64_t beyond = begin + hits * step;
    begin = beyond - step + 1;
    end = beyond < end ? beyond : end;
  }
  return begin;
}

/// Rows of a head at positions below `bound`, as PositionRow::count_below, by all threads of a
/// block. Contains barriers when positions are stored.
template <int Threads>
__device__ std::int64_t count_below(const PositionRow<>& positions, std::int64_t bound,
                                    std::int64_t rows) {
  if (bound > INT32_MAX) return rows;
  if (positions.stored == nullptr) {
    const std::int64_t count = bound - positions.first;
    return count < 0 ? 0 : (count < rows ? count : rows);
  }
  return partition_point<Threads>(0, rows,
                                  [&](std::int64_t i) { return positions.stored[i] < bound; });
}

}  // namespace kvevict::cuda
