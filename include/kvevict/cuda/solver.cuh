// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <type_traits>

#include "kvevict/cuda/status.cuh"

namespace kvevict::cuda {

/// cuSOLVER's handle for one stream, made when first asked for: what needs none never loads the
/// library's kernels.
class SolverHandle {
 public:
  explicit SolverHandle(cudaStream_t stream) : stream_(stream) {}

  cusolverDnHandle_t get() {
    if (handle_ == nullptr) {
      cusolverDnHandle_t handle = nullptr;
      require_success(cusolverDnCreate(&handle), "cusolverDnCreate");
      handle_.reset(handle);
      require_success(cusolverDnSetStream(handle, stream_), "cusolverDnSetStream");
    }
    return handle_.get();
  }

 private:
  struct Destroy {
    void operator()(cusolverDnHandle_t handle) const { cusolverDnDestroy(handle); }
  };

  cudaStream_t stream_;
  std::unique_ptr<std::remove_pointer_t<cusolverDnHandle_t>, Destroy> handle_;
};

}  // namespace kvevict::cuda
