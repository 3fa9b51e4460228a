// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only place that knows which compiler reads device code: nvcc, clang as a CUDA compiler, or a
// host compiler under the tests' emulator, which is included before everything else and defines
// KVEVICT_CUDA_EMULATION.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__CUDACC__)

/// Static shared memory of a block: KVEVICT_SHARED(float, sums, [32]) declares float sums[32].
#define KVEVICT_SHARED(T, name, dims) __shared__ T name dims
#define KVEVICT_UNROLL _Pragma("unroll")
#define KVEVICT_NO_UNROLL _Pragma("unroll 1")

namespace kvevict::cuda {

/// Splits the dynamic shared memory of a launch into consecutive arrays. Every thread of a block
/// makes the same calls in the same order; the sizes together are what `shared_bytes` says.
class SharedCarver {
 public:
  __device__ SharedCarver() {
    extern __shared__ __align__(16) unsigned char kvevict_dynamic_shared[];
    at_ = kvevict_dynamic_shared;
  }
  /// `count` elements, aligned to 16 bytes.
  template <class T>
  __device__ T* take(int count) {
    T* array = reinterpret_cast<T*>(at_);
    at_ += (sizeof(T) * static_cast<std::size_t>(count) + 15) / 16 * 16;
    return array;
  }

 private:
  unsigned char* at_;
};

namespace detail {

template <class... P, class... A>
cudaError_t launch_kernel(const char*, void (*kernel)(P...), dim3 grid, dim3 block,
                          std::size_t shared_bytes, cudaStream_t stream, A&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<A>(arguments)...);
}

}  // namespace detail
}  // namespace kvevict::cuda

#elif defined(KVEVICT_CUDA_EMULATION)

#define KVEVICT_SHARED(T, name, dims) \
  auto& name = ::kvevict_emulation::shared<std::type_identity_t<T> dims, decltype([] {})>()
#define KVEVICT_UNROLL
#define KVEVICT_NO_UNROLL

namespace kvevict::cuda {

class SharedCarver {
 public:
  template <class T>
  T* take(int count) {
    return static_cast<T*>(
        ::kvevict_emulation::carve(sizeof(T) * static_cast<std::size_t>(count), 16));
  }
};

namespace detail {
using ::kvevict_emulation::launch_kernel;
}

}  // namespace kvevict::cuda

#else
#error "kvevict: a .cuh header needs a CUDA compiler (nvcc, or clang++ -x cuda)"
#endif

namespace kvevict::cuda {

/// Bytes of dynamic shared memory that SharedCarver::take<T>(count) uses.
template <class T>
constexpr std::size_t shared_bytes(std::int64_t count) {
  return (sizeof(T) * static_cast<std::size_t>(count) + 15) / 16 * 16;
}

inline constexpr unsigned full_warp = 0xffffffffu;
inline constexpr int warp_size = 32;

}  // namespace kvevict::cuda
