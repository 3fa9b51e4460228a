// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda_timer.cuh"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/math/exponential.hpp"

namespace bench {

namespace kernels {

inline constexpr int threads = 256;
inline constexpr int pieces = 8;  // of 16 bytes, on their way to each thread at a time
inline constexpr int chains = 8;  // independent operations of each thread

/// Each block reads threads * pieces adjacent pieces. The sum is used, or nothing would be read.
static __global__ void __launch_bounds__(threads)
    read_pieces(const uint4* data, std::int64_t count, unsigned* sink) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * (threads * pieces) + threadIdx.x;
  uint4 read[pieces];
  KVEVICT_UNROLL
  for (int p = 0; p < pieces; ++p) {
    const std::int64_t i = first + p * threads;
    read[p] = i < count ? data[i] : uint4{0, 0, 0, 0};
  }
  unsigned sum = 0;
  KVEVICT_UNROLL
  for (int p = 0; p < pieces; ++p) sum += read[p].x ^ read[p].y ^ read[p].z ^ read[p].w;
  if (sum == 0x9e3779b9u) *sink = sum;
}

static __global__ void __launch_bounds__(threads)
    copy_pieces(const uint4* from, uint4* to, std::int64_t count) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * (threads * pieces) + threadIdx.x;
  uint4 read[pieces];
  KVEVICT_UNROLL
  for (int p = 0; p < pieces; ++p) {
    const std::int64_t i = first + p * threads;
    if (i < count) read[p] = from[i];
  }
  KVEVICT_UNROLL
  for (int p = 0; p < pieces; ++p) {
    const std::int64_t i = first + p * threads;
    if (i < count) to[i] = read[p];
  }
}

static __global__ void __launch_bounds__(threads) write_pieces(uint4* to, std::int64_t count) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * (threads * pieces) + threadIdx.x;
  KVEVICT_UNROLL
  for (int p = 0; p < pieces; ++p) {
    const std::int64_t i = first + p * threads;
    if (i < count) to[i] = uint4{0, 0, 0, 0};
  }
}

struct MultiplyAdd {
  template <class T>
  KVEVICT_HOST_DEVICE T operator()(T value) const {
    return value * T(0.999) + T(0.001);
  }
};
struct LibraryExponential {
  KVEVICT_HOST_DEVICE float operator()(float value) const {
    return kvevict::exp_nonpositive(-value);
  }
};
struct DeviceExponential {
  __device__ float operator()(float value) const { return expf(-value); }
};

/// Every thread applies `operation` rounds * chains times.
template <class T, class Operation>
__global__ void __launch_bounds__(threads) apply(Operation operation, int rounds, T* sink) {
  T values[chains];
  KVEVICT_UNROLL
  for (int c = 0; c < chains; ++c) values[c] = T(threadIdx.x) / T(threads) + T(c) / T(chains);
  KVEVICT_UNROLL
  for (int round = 0; round < rounds; ++round) {
    KVEVICT_UNROLL
    for (int c = 0; c < chains; ++c) values[c] = operation(values[c]);
  }
  T sum = 0;
  KVEVICT_UNROLL
  for (int c = 0; c < chains; ++c) sum += values[c];
  if (sum == T(-1)) *sink = sum;
}

static __global__ void __launch_bounds__(32) nothing() {}

}  // namespace kernels

/// What this device sustains, measured now: bandwidths on the very bytes that a benchmark works on
/// (small ones stay in the cache), arithmetic that needs no memory. All results are seconds.
class CudaRates {
 public:
  /// `quick` measures with as little work as shows that the kernels run.
  CudaRates(kvevict::CudaResources& res, bool quick)
      : res_(res), timer_(res), rounds_(quick ? 4 : 2048) {
    sink_.resize(res.stream(), 1);
  }

  /// Reads `bytes` (a multiple of 16) once.
  double read(const void* data, std::int64_t bytes) {
    return timer_.median_seconds([&] {
      launch(res_, "read_pieces", kernels::read_pieces, blocks(bytes), kernels::threads, 0,
             static_cast<const uint4*>(data), bytes / 16, sink<unsigned>());
    });
  }
  /// Writes `bytes` once.
  double write(void* data, std::int64_t bytes) {
    return timer_.median_seconds([&] {
      launch(res_, "write_pieces", kernels::write_pieces, blocks(bytes), kernels::threads, 0,
             static_cast<uint4*>(data), bytes / 16);
    });
  }
  /// Reads `bytes` and writes them elsewhere.
  double copy(const void* from, void* to, std::int64_t bytes) {
    return timer_.median_seconds([&] {
      launch(res_, "copy_pieces", kernels::copy_pieces, blocks(bytes), kernels::threads, 0,
             static_cast<const uint4*>(from), static_cast<uint4*>(to), bytes / 16);
    });
  }

  /// Fused multiplications and additions in T, two flops each.
  template <class T>
  double flops(double count) {
    return count / 2.0 * operations<T>(kernels::MultiplyAdd{});
  }
  /// Exponentials of non-positive floats, by the compiler's function or the library's, whichever is
  /// faster.
  double exponentials(double count) {
    return count * std::min(operations<float>(kernels::DeviceExponential{}),
                            operations<float>(kernels::LibraryExponential{}));
  }
  /// One launch behind another.
  double launch_nothing() {
    return timer_.median_seconds([&] { launch(res_, "nothing", kernels::nothing, 1, 32, 0); });
  }

 private:
  static std::int64_t blocks(std::int64_t bytes) {
    return kvevict::cuda::tiles_of(bytes, 16 * kernels::threads * kernels::pieces);
  }

  template <class T>
  T* sink() const {
    return reinterpret_cast<T*>(sink_.data());
  }

  template <class T, class Operation>
  double operations(Operation operation) {
    const std::int64_t grid = std::int64_t{8} * res_.limits().multiprocessors;
    const double seconds = timer_.median_seconds([&] {
      launch(res_, "apply", kernels::apply<T, Operation>, grid, kernels::threads, 0, operation,
             rounds_, sink<T>());
    });
    return seconds / (static_cast<double>(grid) * kernels::threads * kernels::chains * rounds_);
  }

  kvevict::CudaResources& res_;
  CudaTimer timer_;
  int rounds_;
  kvevict::cuda::DeviceArray<double> sink_;
};

}  // namespace bench
