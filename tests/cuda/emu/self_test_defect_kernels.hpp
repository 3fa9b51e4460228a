// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels with one mistake each, chosen by a template argument, next to the correct one.
#include "kvevict/cuda/compat.cuh"

namespace emulator_test {

enum class Mistake {
  none,
  missing_barrier,      // a value is read before its writer is known to have written
  missing_warp_order,   // the steps of a reduction inside a warp are not ordered
  unwritten_element,    // a shared element is read that nobody writes
  shared_overrun,       // the last thread writes behind the array
  conditional_barrier,  // some threads never reach the barrier
  two_barriers,         // threads wait at different barriers
  early_return,         // threads return before a barrier
};

/// One sum per block of 64 threads.
template <Mistake mistake>
__global__ void __launch_bounds__(64) block_sum(const float* x, int count, float* sums) {
  constexpr int threads = 64;
  KVEVICT_SHARED(float, partial, [threads]);
  const int t = static_cast<int>(threadIdx.x);
  const int i = static_cast<int>(blockIdx.x) * threads + t;
  if (mistake == Mistake::early_return && i >= count) {
    return;
  }
  if (mistake != Mistake::unwritten_element || t != 5) {
    partial[mistake == Mistake::shared_overrun ? t + 1 : t] = i < count ? x[i] : 0.0f;
  }
  if (mistake == Mistake::two_barriers && t % 2 == 0) {
    __syncthreads();
  } else if (mistake != Mistake::missing_barrier) {
    __syncthreads();
  }
  for (int step = threads / 2; step > 0; step /= 2) {
    if (t < step) {
      partial[t] += partial[t + step];
    }
    const bool skips = (mistake == Mistake::conditional_barrier && t >= step) ||
                       (mistake == Mistake::missing_warp_order && step <= 32);
    if (!skips) {
      __syncthreads();
    }
  }
  if (t == 0) {
    sums[blockIdx.x] = partial[0];
  }
}

/// Neighbouring lanes exchange their values through shared memory.
template <bool ordered>
__global__ void __launch_bounds__(32) exchange(const float* x, float* out) {
  KVEVICT_SHARED(float, values, [32]);
  const int lane = static_cast<int>(threadIdx.x);
  values[lane] = x[lane];
  if (ordered) {
    __syncwarp();
  }
  out[lane] = values[lane ^ 1];
}

enum class ShuffleMistake { divergent_full_mask, inactive_source, two_places, foreign_mask };

/// Every lane below `count` adds the value of another lane.
template <ShuffleMistake mistake>
__global__ void __launch_bounds__(32) shuffles(float* x, int count) {
  const int lane = static_cast<int>(threadIdx.x);
  float value = x[lane];
  if (mistake == ShuffleMistake::divergent_full_mask && lane < count) {
    value += __shfl_xor_sync(0xffffffffu, value, 1);
  }
  if (mistake == ShuffleMistake::inactive_source) {
    const unsigned mask = __ballot_sync(0xffffffffu, lane < count);
    if (lane < count) {
      value += __shfl_xor_sync(mask, value, 16);
    }
  }
  if (mistake == ShuffleMistake::two_places) {
    if (lane % 2 == 0) {
      value += __shfl_xor_sync(0xffffffffu, value, 1);
    } else {
      value -= __shfl_xor_sync(0xffffffffu, value, 1);
    }
  }
  if (mistake == ShuffleMistake::foreign_mask) {
    value += __shfl_xor_sync(0x0000ffffu, value, 1);
  }
  x[lane] = value;
}

/// Two threads write each element.
static __global__ void __launch_bounds__(64) race_in_block(float* out) {
  out[threadIdx.x / 2] = static_cast<float>(threadIdx.x);
}

/// The first thread of every block writes the same element.
static __global__ void __launch_bounds__(64) race_of_first_threads(float* out) {
  if (threadIdx.x == 0) {
    out[0] = static_cast<float>(blockIdx.x);
  }
}

/// Another thread of every block writes the same element, before a barrier.
static __global__ void __launch_bounds__(64) race_of_other_threads(float* out) {
  if (threadIdx.x == blockIdx.x) {
    out[0] = static_cast<float>(blockIdx.x);
  }
  __syncthreads();
}

/// The last block to finish adds what the others have written.
template <bool fenced>
__global__ void __launch_bounds__(32) sum_by_last_block(int* parts, unsigned* finished, int* sum) {
  if (threadIdx.x != 0) {
    return;
  }
  parts[blockIdx.x] = 1;
  if (fenced) {
    __threadfence();
  }
  if (atomicInc(finished, gridDim.x - 1) == gridDim.x - 1) {
    if (fenced) {
      __threadfence();
    }
    int total = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) {
      total += parts[b];
    }
    *sum = total;
  }
}

/// Reads x[0], ..., x[count], one too many.
static __global__ void __launch_bounds__(128) read_past_end(const float* x, int count, float* out) {
  const int i = static_cast<int>(threadIdx.x);
  if (i <= count) {
    out[i] = x[i];
  }
}

/// Two carved arrays of `count` elements each; `shift` reads the first one that far behind.
static __global__ void __launch_bounds__(32) carved_arrays(float* out, int count, int shift) {
  kvevict::cuda::SharedCarver carver;
  float* first = carver.take<float>(count);
  float* second = carver.take<float>(count);
  const int t = static_cast<int>(threadIdx.x);
  first[t] = 1.0f;
  second[t] = 2.0f;
  __syncthreads();
  out[t] = first[t + shift] + second[t];
}

static __global__ void __launch_bounds__(32) carved_differently(float* out) {
  kvevict::cuda::SharedCarver carver;
  float* own = carver.take<float>(threadIdx.x == 3 ? 16 : 8);
  own[0] = 1.0f;
  out[threadIdx.x] = 1.0f;
}

static __global__ void __launch_bounds__(32) large_static_array(float* out) {
  KVEVICT_SHARED(float, values, [13000]);
  values[threadIdx.x] = 1.0f;
  out[threadIdx.x] = values[threadIdx.x];
}

static __global__ void __launch_bounds__(8) misaligned_load(const float* x, float* out) {
  const float4 values = *reinterpret_cast<const float4*>(x + 1 + 4 * threadIdx.x);
  out[threadIdx.x] = values.x;
}

static __global__ void __launch_bounds__(8)
    overflowing_index(const float* x, int pitch, float* out) {
  const int row = 70000 * static_cast<int>(threadIdx.x);
  out[threadIdx.x] = row * pitch == 0 ? x[0] : 0.0f;
}

}  // namespace emulator_test
