// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/status.cuh"

namespace kvevict::cuda {

namespace detail {

/// The context is the stream itself.
inline void* allocate_in_order(void* stream, std::size_t bytes) noexcept {
  void* block = nullptr;
  const cudaError_t status = cudaMallocAsync(&block, bytes, static_cast<cudaStream_t>(stream));
  // Out of memory is the caller's to report; it must not stick to the next call.
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
  return status == cudaSuccess ? block : nullptr;
}

inline void release_in_order(void* stream, void* block) noexcept {
  cudaFreeAsync(block, static_cast<cudaStream_t>(stream));
}

}  // namespace detail

/// Device memory in the order of a stream: what is released may still be in use by work that was
/// enqueued before.
inline MemorySource stream_ordered_memory(cudaStream_t stream) {
  return {detail::allocate_in_order, detail::release_in_order, stream};
}

/// An array in device memory, owned, in the order of one stream. Growing keeps the contents and at
/// least doubles the capacity; shrinking keeps the capacity.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray(DeviceArray&& other) noexcept { swap(other); }
  DeviceArray& operator=(DeviceArray other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceArray() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }

  T* data() const { return data_; }
  std::int64_t size() const { return size_; }

  /// New elements are uninitialised. Throws a backend error when there is no memory.
  void resize(cudaStream_t stream, std::int64_t size) {
    if (size > capacity_) {
      DeviceArray larger;
      larger.stream_ = stream;
      larger.capacity_ = std::max(size, 2 * capacity_);
      void* memory = nullptr;
      require_success(
          cudaMallocAsync(&memory, static_cast<std::size_t>(larger.capacity_) * sizeof(T), stream),
          "cudaMallocAsync");
      larger.data_ = static_cast<T*>(memory);
      if (size_ > 0) {
        require_success(
            cudaMemcpyAsync(larger.data_, data_, static_cast<std::size_t>(size_) * sizeof(T),
                            cudaMemcpyDeviceToDevice, stream),
            "cudaMemcpyAsync");
      }
      swap(larger);
    }
    size_ = size;
  }

 private:
  void swap(DeviceArray& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(stream_, other.stream_);
  }

  T* data_ = nullptr;
  std::int64_t size_ = 0;
  std::int64_t capacity_ = 0;
  cudaStream_t stream_ = nullptr;
};

}  // namespace kvevict::cuda
