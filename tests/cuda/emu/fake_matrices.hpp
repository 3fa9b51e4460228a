// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the fakes of cuBLAS and cuSOLVER share: matrices in column-major device memory.
#include <cublas_v2.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "runtime.hpp"
#include "settings.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
};

namespace kvevict_emulation {

/// Element (i, j) is at data[i * row_step + j * column_step].
template <class T>
struct Matrix {
  T* data;
  std::ptrdiff_t row_step;
  std::ptrdiff_t column_step;

  T& operator()(int i, int j) const { return data[i * row_step + j * column_step]; }
  Matrix transposed() const { return {data, column_step, row_step}; }
};

inline bool leading_dimension_fits(int stored_rows, int leading) {
  return leading >= std::max(1, stored_rows);
}

/// A stored matrix of rows x columns, after a check that it lies inside one device allocation.
template <class T>
Matrix<T> stored(T* data, int rows, int columns, int leading, const char* what) {
  if (rows > 0 && columns > 0) {
    const std::size_t elements =
        static_cast<std::size_t>(columns - 1) * static_cast<std::size_t>(leading) +
        static_cast<std::size_t>(rows);
    require_device_range(data, elements * sizeof(T), what);
  }
  return {data, 1, leading};
}

/// op(M) of rows x columns.
template <class T>
Matrix<T> operand(cublasOperation_t op, T* data, int rows, int columns, int leading,
                  const char* what) {
  if (op == CUBLAS_OP_N) {
    return stored(data, rows, columns, leading, what);
  }
  return stored(data, columns, rows, leading, what).transposed();
}

/// The pointers of a batched call, which a device reads from its own memory.
template <class T>
std::vector<T*> batch_pointers(T* const* array, int count, const char* what) {
  require_device_range(array, sizeof(T*) * static_cast<std::size_t>(count), what);
  return {array, array + count};
}

inline bool is_op(cublasOperation_t op) {
  return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

inline bool is_triangle(cublasFillMode_t triangle) {
  return triangle == CUBLAS_FILL_MODE_LOWER || triangle == CUBLAS_FILL_MODE_UPPER;
}

/// alpha or beta: read at the call in host pointer mode, when the work runs in device pointer mode.
template <class T>
class Scalar {
 public:
  Scalar(cublasHandle_t handle, const T* address, const char* what) : what_(what) {
    if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
      on_device_ = address;
      return;
    }
    cudaPointerAttributes attributes;
    cudaPointerGetAttributes(&attributes, address);
    if (attributes.type == cudaMemoryTypeDevice) {
      throw DeviceError(std::string(what) + ": a device address in host pointer mode");
    }
    value_ = *address;
  }
  T get() const {
    if (on_device_ == nullptr) {
      return value_;
    }
    require_device_range(on_device_, sizeof(T), what_);
    return *on_device_;
  }

 private:
  const char* what_;
  const T* on_device_ = nullptr;
  T value_{};
};

/// Queues `work` as the handle's next work.
template <class Work>
cublasStatus_t enqueue_on(cublasHandle_t handle, Work work) {
  return enqueue(handle->stream, std::move(work)) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                 : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace kvevict_emulation
