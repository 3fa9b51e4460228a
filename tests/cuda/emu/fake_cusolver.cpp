// SPDX-License-Identifier: Apache-2.0
// The fake cuSOLVER: batched Cholesky factorization.
#include <cusolverDn.h>

#include <cmath>
#include <limits>
#include <memory>

#include "fake_matrices.hpp"

struct cusolverDnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using kvevict_emulation::batch_pointers;
using kvevict_emulation::Matrix;
using kvevict_emulation::stored;

// The factor L of A = L L^T in the lower triangle of `a`. Returns the order of the first leading
// minor that is not positive, or 0.
template <class T>
int factorize(const Matrix<T>& a, int n) {
  for (int j = 0; j < n; ++j) {
    T pivot = a(j, j);
    for (int k = 0; k < j; ++k) {
      pivot -= a(j, k) * a(j, k);
    }
    if (!(pivot > T(0))) {
      return j + 1;
    }
    a(j, j) = std::sqrt(pivot);
    for (int i = j + 1; i < n; ++i) {
      T value = a(i, j);
      for (int k = 0; k < j; ++k) {
        value -= a(i, k) * a(j, k);
      }
      a(i, j) = value / a(j, j);
    }
  }
  return 0;
}

template <class T>
cusolverStatus_t factorize_batched(cusolverDnHandle_t handle, cublasFillMode_t triangle, int n,
                                   T* const* array, int leading, int* info, int batch) {
  if (handle == nullptr) {
    return CUSOLVER_STATUS_NOT_INITIALIZED;
  }
  if (!kvevict_emulation::is_triangle(triangle) || n < 0 || batch < 1 ||
      !kvevict_emulation::leading_dimension_fits(n, leading)) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  const cudaError_t error = kvevict_emulation::enqueue(handle->stream, [=] {
    kvevict_emulation::require_device_range(info, sizeof(int) * static_cast<std::size_t>(batch),
                                            "potrfBatched's infoArray");
    const auto matrices = batch_pointers(array, batch, "potrfBatched's array of A");
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      Matrix<T> a = stored(matrices[i], n, n, leading, "potrfBatched's A");
      if (triangle == CUBLAS_FILL_MODE_UPPER) {
        a = a.transposed();
      }
      info[i] = factorize(a, n);
      // The other triangle is workspace: whoever reads it afterwards must find out.
      for (int column = 1; column < n; ++column) {
        for (int row = 0; row < column; ++row) {
          a(row, column) = std::numeric_limits<T>::quiet_NaN();
        }
      }
    }
  });
  return error == cudaSuccess ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_EXECUTION_FAILED;
}

}  // namespace

extern "C" {

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  if (handle == nullptr) {
    return CUSOLVER_STATUS_INVALID_VALUE;
  }
  *handle = std::make_unique<cusolverDnContext>().release();
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  const std::unique_ptr<cusolverDnContext> owned(handle);
  return owned ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_NOT_INITIALIZED;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) {
    return CUSOLVER_STATUS_NOT_INITIALIZED;
  }
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr) {
    return CUSOLVER_STATUS_NOT_INITIALIZED;
  }
  *stream = handle->stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSpotrfBatched(cusolverDnHandle_t handle, cublasFillMode_t triangle,
                                         int n, float* array[], int leading, int* info, int batch) {
  return factorize_batched(handle, triangle, n, array, leading, info, batch);
}

cusolverStatus_t cusolverDnDpotrfBatched(cusolverDnHandle_t handle, cublasFillMode_t triangle,
                                         int n, double* array[], int leading, int* info,
                                         int batch) {
  return factorize_batched(handle, triangle, n, array, leading, info, batch);
}

}  // extern "C"
