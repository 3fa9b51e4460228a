// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/core/config.hpp"
#include "kvevict/cuda/compat.cuh"

namespace kvevict::cuda {

/// Reductions over lanes and threads. Each is one fixed tree: the result depends on the values
/// only, bit by bit, and every participant gets it.

struct Sum {
  template <class T>
  KVEVICT_HOST_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};

/// The larger one; NaN if there is one.
struct Maximum {
  template <class T>
  KVEVICT_HOST_DEVICE T operator()(T a, T b) const {
    return !(b <= a) && a == a ? b : a;
  }
};

/// The larger one; NaN is passed over unless there is nothing else.
struct MaximumNumber {
  template <class T>
  KVEVICT_HOST_DEVICE T operator()(T a, T b) const {
    return !(b <= a) && b == b ? b : a;
  }
};

/// Over each group of `Lanes` (a power of two) adjacent lanes; the whole warp calls it.
template <int Lanes = warp_size, class T, class Combine>
__device__ T reduce_lanes(T value, Combine combine) {
  static_assert(Lanes >= 1 && Lanes <= warp_size && (Lanes & (Lanes - 1)) == 0);
  KVEVICT_UNROLL
  for (int offset = Lanes / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(full_warp, value, offset));
  }
  return value;
}

/// Over the `Threads` threads of a block, all of which call it. Contains barriers; what was written
/// to shared memory before is visible after.
template <int Threads, class T, class Combine>
__device__ T reduce_block(T value, Combine combine) {
  static_assert(Threads % warp_size == 0 && Threads <= 1024);
  constexpr int warps = Threads / warp_size;
  const int thread = static_cast<int>(threadIdx.x);
  value = reduce_lanes(value, combine);
  KVEVICT_SHARED(T, of_warp, [warps]);
  if (thread % warp_size == 0) of_warp[thread / warp_size] = value;
  __syncthreads();
  T result = of_warp[0];
  KVEVICT_UNROLL
  for (int w = 1; w < warps; ++w) result = combine(result, of_warp[w]);
  __syncthreads();  // the next reduction writes again
  return result;
}

/// Sums each of `Count` values (a power of two) over the groups of `Lanes` adjacent lanes and
/// leaves the sums spread over the lanes: afterwards lane l of a group holds in values[j] the sum
/// of value l * Count / Lanes + j for j < max(1, Count / Lanes); when there are fewer values than
/// lanes, Lanes / Count adjacent lanes hold the same. Count - 1 + log2(Lanes / Count) shuffles
/// instead of Count * log2(Lanes); every sum is formed in the order of `reduce_lanes`.
template <int Lanes, int Count, class T>
__device__ void scatter_sums(T (&values)[Count]) {
  static_assert((Lanes & (Lanes - 1)) == 0 && (Count & (Count - 1)) == 0);
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  int left = Count;
  KVEVICT_UNROLL
  for (int offset = Lanes / 2; offset > 0; offset /= 2) {
    if (left == 1) {
      values[0] += __shfl_xor_sync(full_warp, values[0], offset);
      continue;
    }
    // Each lane of a pair keeps one half of the values and hands over the other.
    const bool upper = (lane & offset) != 0;
    left /= 2;
    KVEVICT_UNROLL
    for (int i = 0; i < Count / 2; ++i) {
      if (i >= left) break;
      const T kept = upper ? values[i + left] : values[i];
      const T given = upper ? values[i] : values[i + left];
      values[i] = kept + __shfl_xor_sync(full_warp, given, offset);
    }
  }
}

}  // namespace kvevict::cuda
