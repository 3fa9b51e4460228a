// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <type_traits>

#include "kvevict/cuda/status.cuh"

namespace kvevict::cuda {

/// Handles of cuBLAS and cuSOLVER for one stream, made when first asked for: policies that need
/// neither never load the libraries' kernels.
class LibraryHandles {
 public:
  explicit LibraryHandles(cudaStream_t stream) : stream_(stream) {}

  /// Deterministic (no atomics), pointers to scalars on the host.
  cublasHandle_t blas() {
    if (blas_ == nullptr) {
      cublasHandle_t handle = nullptr;
      require_success(cublasCreate(&handle), "cublasCreate");
      blas_.reset(handle);
      require_success(cublasSetStream(handle, stream_), "cublasSetStream");
      require_success(cublasSetAtomicsMode(handle, CUBLAS_ATOMICS_NOT_ALLOWED),
                      "cublasSetAtomicsMode");
    }
    return blas_.get();
  }

  cusolverDnHandle_t solver() {
    if (solver_ == nullptr) {
      cusolverDnHandle_t handle = nullptr;
      require_success(cusolverDnCreate(&handle), "cusolverDnCreate");
      solver_.reset(handle);
      require_success(cusolverDnSetStream(handle, stream_), "cusolverDnSetStream");
    }
    return solver_.get();
  }

 private:
  struct DestroyBlas {
    void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
  };
  struct DestroySolver {
    void operator()(cusolverDnHandle_t handle) const { cusolverDnDestroy(handle); }
  };

  cudaStream_t stream_;
  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, DestroyBlas> blas_;
  std::unique_ptr<std::remove_pointer_t<cusolverDnHandle_t>, DestroySolver> solver_;
};

}  // namespace kvevict::cuda
