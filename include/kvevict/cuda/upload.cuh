// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kvevict/cuda/status.cuh"

namespace kvevict::cuda {

namespace detail {

/// As many bytes as surely fit the parameters of a kernel beside a pointer and a count.
template <class T>
struct UploadChunk {
  static constexpr int capacity = static_cast<int>(3840 / sizeof(T));
  T values[capacity];
};

template <class T>
__global__ void __launch_bounds__(128) store_chunk(UploadChunk<T> chunk, int count, T* to) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    to[i] = chunk.values[i];
  }
}

}  // namespace detail

/// Copies a small array from host to device memory through the arguments of kernels: `from` may
/// change as soon as the call returns, nothing waits, and a graph that captured the call repeats
/// the values. 3840 bytes a launch.
template <class T>
void upload(cudaStream_t stream, const T* from, std::int64_t count, T* to) {
  static_assert(std::is_trivially_copyable_v<T>);
  for (std::int64_t first = 0; first < count;) {
    detail::UploadChunk<T> chunk{};
    const auto n =
        static_cast<int>(std::min<std::int64_t>(count - first, detail::UploadChunk<T>::capacity));
    std::memcpy(chunk.values, from + first, static_cast<std::size_t>(n) * sizeof(T));
    require_success(detail::launch_kernel("upload", detail::store_chunk<T>, dim3(1), dim3(128), 0,
                                          stream, chunk, n, to + first),
                    "upload");
    first += n;
  }
}

}  // namespace kvevict::cuda
