// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvevict/cuda/array.cuh"

namespace kvevict_test {

// A copy of host data in device memory.
template <class T>
kvevict::Array<T, kvevict::MemorySpace::device> on_device(kvevict::CudaResources& res,
                                                          const std::vector<T>& data) {
  kvevict::Array<T, kvevict::MemorySpace::device> array;
  array.assign(res, data.data(), static_cast<std::int64_t>(data.size()));
  return array;
}

// Waits.
template <class T>
std::vector<T> on_host(kvevict::CudaResources& res, const T* data, std::int64_t count) {
  std::vector<T> copy(static_cast<std::size_t>(count));
  if (count > 0) {
    kvevict::cuda::require_success(cudaMemcpyAsync(copy.data(), data, copy.size() * sizeof(T),
                                                   cudaMemcpyDeviceToHost, res.stream()),
                                   "cudaMemcpyAsync");
  }
  res.wait();
  return copy;
}

}  // namespace kvevict_test
