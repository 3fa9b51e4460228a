// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvevict/cuda/resources.cuh"

namespace kvevict::cuda {

/// Enqueues a copy of `count` elements within device memory.
template <class T>
void copy(const Resources& res, const T* from, std::int64_t count, T* to) {
  if (count == 0 || from == to) return;
  require_success(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T),
                                  cudaMemcpyDeviceToDevice, res.stream()),
                  "cudaMemcpyAsync");
}

}  // namespace kvevict::cuda
