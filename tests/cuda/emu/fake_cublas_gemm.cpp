// SPDX-License-Identifier: Apache-2.0
// C = alpha op(A) op(B) + beta C of the fake cuBLAS: one, strided and by arrays of pointers.
#include "fake_matrices.hpp"

namespace {

using kvevict_emulation::batch_pointers;
using kvevict_emulation::DeviceError;
using kvevict_emulation::enqueue_on;
using kvevict_emulation::leading_dimension_fits;
using kvevict_emulation::Matrix;
using kvevict_emulation::operand;
using kvevict_emulation::Scalar;
using kvevict_emulation::stored;

/// op(A) is m x k, op(B) is k x n and C is m x n.
struct Shape {
  cublasOperation_t op_a;
  cublasOperation_t op_b;
  int m;
  int n;
  int k;
  int leading_a;
  int leading_b;
  int leading_c;
};

template <class T>
cublasStatus_t check(cublasHandle_t handle, const Shape& shape, const T* alpha, const T* beta,
                     int batch) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  const bool ok =
      kvevict_emulation::is_op(shape.op_a) && kvevict_emulation::is_op(shape.op_b) &&
      shape.m >= 0 && shape.n >= 0 && shape.k >= 0 && batch >= 0 && alpha != nullptr &&
      beta != nullptr &&
      leading_dimension_fits(shape.op_a == CUBLAS_OP_N ? shape.m : shape.k, shape.leading_a) &&
      leading_dimension_fits(shape.op_b == CUBLAS_OP_N ? shape.k : shape.n, shape.leading_b) &&
      leading_dimension_fits(shape.m, shape.leading_c);
  return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

template <class T>
void multiply(const Shape& shape, T alpha, const T* a_data, const T* b_data, T beta, T* c_data) {
  const Matrix<T> c = stored(c_data, shape.m, shape.n, shape.leading_c, "gemm's C");
  const bool has_product = alpha != T(0) && shape.k > 0;
  Matrix<const T> a{};
  Matrix<const T> b{};
  if (has_product) {
    a = operand(shape.op_a, a_data, shape.m, shape.k, shape.leading_a, "gemm's A");
    b = operand(shape.op_b, b_data, shape.k, shape.n, shape.leading_b, "gemm's B");
  }
  std::vector<T> column(static_cast<std::size_t>(shape.m));
  for (int j = 0; j < shape.n; ++j) {
    std::fill(column.begin(), column.end(), T(0));
    for (int l = 0; has_product && l < shape.k; ++l) {
      const T factor = b(l, j);
      for (int i = 0; i < shape.m; ++i) {
        column[static_cast<std::size_t>(i)] += a(i, l) * factor;
      }
    }
    for (int i = 0; i < shape.m; ++i) {
      const T product = alpha * column[static_cast<std::size_t>(i)];
      c(i, j) = beta == T(0) ? product : product + beta * c(i, j);  // C may be NaN when beta is 0
    }
  }
}

template <class T>
cublasStatus_t strided(cublasHandle_t handle, const Shape& shape, const T* alpha, const T* a,
                       long long stride_a, const T* b, long long stride_b, const T* beta, T* c,
                       long long stride_c, int batch) {
  if (const cublasStatus_t status = check(handle, shape, alpha, beta, batch);
      status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if (shape.m == 0 || shape.n == 0) {
    return CUBLAS_STATUS_SUCCESS;
  }
  const long long used = static_cast<long long>(shape.leading_c) * (shape.n - 1) + shape.m;
  if (batch > 1 && stride_c < used && -stride_c < used) {
    throw DeviceError("gemmStridedBatched: the matrices C overlap");
  }
  const Scalar<T> scale(handle, alpha, "gemm's alpha");
  const Scalar<T> keep(handle, beta, "gemm's beta");
  return enqueue_on(handle, [=] {
    for (int i = 0; i < batch; ++i) {
      multiply<T>(shape, scale.get(), a + i * stride_a, b + i * stride_b, keep.get(),
                  c + i * stride_c);
    }
  });
}

template <class T>
cublasStatus_t batched(cublasHandle_t handle, const Shape& shape, const T* alpha, const T* const* a,
                       const T* const* b, const T* beta, T* const* c, int batch) {
  if (const cublasStatus_t status = check(handle, shape, alpha, beta, batch);
      status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if (shape.m == 0 || shape.n == 0 || batch == 0) {
    return CUBLAS_STATUS_SUCCESS;
  }
  const Scalar<T> scale(handle, alpha, "gemm's alpha");
  const Scalar<T> keep(handle, beta, "gemm's beta");
  return enqueue_on(handle, [=] {
    const auto all_a = batch_pointers(a, batch, "gemmBatched's array of A");
    const auto all_b = batch_pointers(b, batch, "gemmBatched's array of B");
    const auto all_c = batch_pointers(c, batch, "gemmBatched's array of C");
    for (std::size_t i = 0; i < all_c.size(); ++i) {
      multiply<T>(shape, scale.get(), all_a[i], all_b[i], keep.get(), all_c[i]);
    }
  });
}

}  // namespace

extern "C" {

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                              int m, int n, int k, const float* alpha, const float* a, int lda,
                              const float* b, int ldb, const float* beta, float* c, int ldc) {
  return strided(handle, {op_a, op_b, m, n, k, lda, ldb, ldc}, alpha, a, 0, b, 0, beta, c, 0, 1);
}

cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                              int m, int n, int k, const double* alpha, const double* a, int lda,
                              const double* b, int ldb, const double* beta, double* c, int ldc) {
  return strided(handle, {op_a, op_b, m, n, k, lda, ldb, ldc}, alpha, a, 0, b, 0, beta, c, 0, 1);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const float* alpha, const float* a, int lda,
                                         long long stride_a, const float* b, int ldb,
                                         long long stride_b, const float* beta, float* c, int ldc,
                                         long long stride_c, int batch) {
  return strided(handle, {op_a, op_b, m, n, k, lda, ldb, ldc}, alpha, a, stride_a, b, stride_b,
                 beta, c, stride_c, batch);
}

cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const double* alpha, const double* a, int lda,
                                         long long stride_a, const double* b, int ldb,
                                         long long stride_b, const double* beta, double* c, int ldc,
                                         long long stride_c, int batch) {
  return strided(handle, {op_a, op_b, m, n, k, lda, ldb, ldc}, alpha, a, stride_a, b, stride_b,
                 beta, c, stride_c, batch);
}

cublasStatus_t cublasSgemmBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                  cublasOperation_t op_b, int m, int n, int k, const float* alpha,
                                  const float* const a[], int lda, const float* const b[], int ldb,
                                  const float* beta, float* const c[], int ldc, int batch) {
  return batched(handle, {op_a, op_b, m, n, k, lda, ldb, ldc}, alpha, a, b, beta, c, batch);
}

cublasStatus_t cublasDgemmBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                  cublasOperation_t op_b, int m, int n, int k, const double* alpha,
                                  const double* const a[], int lda, const double* const b[],
                                  int ldb, const double* beta, double* const c[], int ldc,
                                  int batch) {
  return batched(handle, {op_a, op_b, m, n, k, lda, ldb, ldc}, alpha, a, b, beta, c, batch);
}

}  // extern "C"
