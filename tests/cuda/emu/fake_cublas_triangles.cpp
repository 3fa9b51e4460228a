// SPDX-License-Identifier: Apache-2.0
// What the fake cuBLAS does with one triangle of a matrix: symmetric products and solving.
#include "fake_matrices.hpp"

namespace {

using kvevict_emulation::batch_pointers;
using kvevict_emulation::enqueue_on;
using kvevict_emulation::leading_dimension_fits;
using kvevict_emulation::Matrix;
using kvevict_emulation::operand;
using kvevict_emulation::Scalar;
using kvevict_emulation::stored;

// One triangle of C = alpha op(A) op(A)^T + beta C, where op(A) is n x k.
template <class T>
cublasStatus_t rank_k_update(cublasHandle_t handle, cublasFillMode_t triangle, cublasOperation_t op,
                             int n, int k, const T* alpha, const T* a_data, int leading_a,
                             const T* beta, T* c_data, int leading_c) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (!kvevict_emulation::is_triangle(triangle) || !kvevict_emulation::is_op(op) || n < 0 ||
      k < 0 || alpha == nullptr || beta == nullptr ||
      !leading_dimension_fits(op == CUBLAS_OP_N ? n : k, leading_a) ||
      !leading_dimension_fits(n, leading_c)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Scalar<T> scale(handle, alpha, "syrk's alpha");
  const Scalar<T> keep(handle, beta, "syrk's beta");
  return enqueue_on(handle, [=] {
    const Matrix<T> c = stored(c_data, n, n, leading_c, "syrk's C");
    const T factor = scale.get();
    const T kept = keep.get();
    const int terms = factor == T(0) ? 0 : k;
    const Matrix<const T> a = operand(op, a_data, n, terms, leading_a, "syrk's A");
    for (int j = 0; j < n; ++j) {
      const bool lower = triangle == CUBLAS_FILL_MODE_LOWER;
      for (int i = lower ? j : 0; i < (lower ? n : j + 1); ++i) {
        T sum = 0;
        for (int l = 0; l < terms; ++l) {
          sum += a(i, l) * a(j, l);
        }
        c(i, j) = kept == T(0) ? factor * sum : factor * sum + kept * c(i, j);
      }
    }
  });
}

struct Solve {
  cublasSideMode_t side;
  cublasFillMode_t triangle;
  cublasOperation_t op;
  cublasDiagType_t diagonal;
  int m;
  int n;
  int leading_a;
  int leading_b;
};

// X of op(A) X = alpha B or X op(A) = alpha B, in place of B [m x n].
template <class T>
void solve(const Solve& task, T alpha, const T* a_data, T* b_data) {
  const bool left = task.side == CUBLAS_SIDE_LEFT;
  const int order = left ? task.m : task.n;
  const int columns = left ? task.n : task.m;
  Matrix<T> b = stored(b_data, task.m, task.n, task.leading_b, "trsm's B");
  Matrix<const T> a = operand(task.op, a_data, order, order, task.leading_a, "trsm's A");
  bool lower = (task.triangle == CUBLAS_FILL_MODE_LOWER) == (task.op == CUBLAS_OP_N);
  if (!left) {  // the transposed equation has the unknown on the right of A
    a = a.transposed();
    b = b.transposed();
    lower = !lower;
  }
  for (int column = 0; column < columns; ++column) {
    for (int step = 0; step < order; ++step) {
      const int i = lower ? step : order - 1 - step;
      if (alpha == T(0)) {
        b(i, column) = T(0);
        continue;
      }
      T value = alpha * b(i, column);
      for (int j = lower ? 0 : i + 1; j < (lower ? i : order); ++j) {
        value -= a(i, j) * b(j, column);
      }
      b(i, column) = task.diagonal == CUBLAS_DIAG_UNIT ? value : value / a(i, i);
    }
  }
}

template <class T>
cublasStatus_t solve_batched(cublasHandle_t handle, const Solve& task, const T* alpha,
                             const T* const* a, T* const* b, int batch) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  const int order = task.side == CUBLAS_SIDE_LEFT ? task.m : task.n;
  if (!kvevict_emulation::is_triangle(task.triangle) || !kvevict_emulation::is_op(task.op) ||
      task.m < 0 || task.n < 0 || batch < 0 || alpha == nullptr ||
      !leading_dimension_fits(order, task.leading_a) ||
      !leading_dimension_fits(task.m, task.leading_b)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (task.m == 0 || task.n == 0 || batch == 0) {
    return CUBLAS_STATUS_SUCCESS;
  }
  const Scalar<T> scale(handle, alpha, "trsm's alpha");
  return enqueue_on(handle, [=] {
    const auto all_a = batch_pointers(a, batch, "trsmBatched's array of A");
    const auto all_b = batch_pointers(b, batch, "trsmBatched's array of B");
    for (std::size_t i = 0; i < all_b.size(); ++i) {
      solve<T>(task, scale.get(), all_a[i], all_b[i]);
    }
  });
}

}  // namespace

extern "C" {

cublasStatus_t cublasSsyrk_v2(cublasHandle_t handle, cublasFillMode_t triangle,
                              cublasOperation_t op, int n, int k, const float* alpha,
                              const float* a, int lda, const float* beta, float* c, int ldc) {
  return rank_k_update(handle, triangle, op, n, k, alpha, a, lda, beta, c, ldc);
}

cublasStatus_t cublasDsyrk_v2(cublasHandle_t handle, cublasFillMode_t triangle,
                              cublasOperation_t op, int n, int k, const double* alpha,
                              const double* a, int lda, const double* beta, double* c, int ldc) {
  return rank_k_update(handle, triangle, op, n, k, alpha, a, lda, beta, c, ldc);
}

cublasStatus_t cublasStrsmBatched(cublasHandle_t handle, cublasSideMode_t side,
                                  cublasFillMode_t triangle, cublasOperation_t op,
                                  cublasDiagType_t diagonal, int m, int n, const float* alpha,
                                  const float* const a[], int lda, float* const b[], int ldb,
                                  int batch) {
  return solve_batched(handle, {side, triangle, op, diagonal, m, n, lda, ldb}, alpha, a, b, batch);
}

cublasStatus_t cublasDtrsmBatched(cublasHandle_t handle, cublasSideMode_t side,
                                  cublasFillMode_t triangle, cublasOperation_t op,
                                  cublasDiagType_t diagonal, int m, int n, const double* alpha,
                                  const double* const a[], int lda, double* const b[], int ldb,
                                  int batch) {
  return solve_batched(handle, {side, triangle, op, diagonal, m, n, lda, ldb}, alpha, a, b, batch);
}

}  // extern "C"
