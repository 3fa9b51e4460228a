// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/cuda/leverage.cuh"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/ops/capacity.hpp"

namespace kvevict::cuda {

// Own kernels rather than cuSOLVER's and cuBLAS' batched ones, which promise neither the same bits
// for a matrix alone and in a batch nor to be capturable in a graph.

/// Arguments of the kernel: A = s2 I + M for each symmetric matrix M, of which the lower triangle
/// is read, becomes L with A = L L^T in the lower triangle of `lower`, which may be the same
/// memory.
struct Factorizations {
  MatrixBatchView<const double, MemorySpace::device> matrices;
  double* lower = nullptr;  ///< [matrix][dim][dim]
  Noise noise;
  const std::uint32_t* largest = nullptr;  ///< bits of the unit of the roots; scales absolute noise
  CapacityOutcome* outcomes = nullptr;     ///< [matrix]
  int* overflows = nullptr;                ///< [matrix], becomes 0
};

namespace detail {

inline constexpr int cholesky_threads = 256;
/// Columns that are factorised at a time.
inline constexpr int cholesky_panel = 16;
/// Rows and columns behind a panel that are updated at a time.
inline constexpr int cholesky_tile = 64;

/// The diagonal block of a panel, one thread for each number: eliminates column by column without
/// dividing a column that later steps read (one barrier each), then scales; inverses of the pivots'
/// roots go to `inverses`. False for a pivot that is not above zero.
__device__ inline bool factorize_diagonal(double (&block)[cholesky_panel][cholesky_panel + 1],
                                          double (&inverses)[cholesky_panel]) {
  const int row = static_cast<int>(threadIdx.x) / cholesky_panel;
  const int column = static_cast<int>(threadIdx.x) % cholesky_panel;
  for (int k = 0; k < cholesky_panel; ++k) {
    const double pivot = block[k][k];
    if (!(pivot > 0.0)) return false;
    if (k < column && column <= row) {
      block[row][column] -= block[row][k] * (block[column][k] / pivot);
    }
    __syncthreads();
  }
  const double root = sqrt(block[column][column]);
  const double value = row == column ? root : block[row][column] / root;
  __syncthreads();
  if (column <= row) block[row][column] = value;
  if (column == row) inverses[row] = 1.0 / root;
  __syncthreads();
  return true;
}

/// The rows below a panel: solves x L^T = a for each, one thread a row.
__device__ inline void solve_panel(const double (&block)[cholesky_panel][cholesky_panel + 1],
                                   const double (&inverses)[cholesky_panel], double* lower, int dim,
                                   int first) {
  for (int top = first + cholesky_panel; top < dim; top += cholesky_threads) {
    // Also keeps compilers from holding the whole block in registers between rounds.
    __syncthreads();
    const int row = top + static_cast<int>(threadIdx.x);
    if (row >= dim) continue;
    double* of_row = lower + std::int64_t{row} * dim + first;
    double x[cholesky_panel];
    KVEVICT_UNROLL
    for (int c = 0; c < cholesky_panel; ++c) {
      double value = of_row[c];
      KVEVICT_UNROLL
      for (int k = 0; k < c; ++k) value -= x[k] * block[c][k];
      x[c] = value * inverses[c];
      of_row[c] = x[c];
    }
  }
}

using PanelRows = double[cholesky_tile][cholesky_panel + 1];

/// Rows [start, start + 64) of a panel to shared memory; zeros behind the last.
__device__ inline void stage_panel(const double* lower, int dim, int first, int start,
                                   PanelRows& to) {
  for (int i = static_cast<int>(threadIdx.x); i < cholesky_tile * cholesky_panel;
       i += cholesky_threads) {
    const int row = start + i / cholesky_panel;
    const int column = i % cholesky_panel;
    to[i / cholesky_panel][column] =
        row < dim ? lower[std::int64_t{row} * dim + first + column] : 0.0;
  }
}

/// Subtracts the outer product of a panel from the rows and columns behind it.
__device__ inline void update_behind_panel(double* lower, int dim, int first, PanelRows& left,
                                           PanelRows& right) {
  constexpr int side = 16;
  constexpr int own = cholesky_tile / side;
  const int r0 = static_cast<int>(threadIdx.x) / side;
  const int c0 = static_cast<int>(threadIdx.x) % side;
  const int behind = first + cholesky_panel;
  for (int top = behind; top < dim; top += cholesky_tile) {
    for (int start = behind; start <= top; start += cholesky_tile) {
      __syncthreads();
      stage_panel(lower, dim, first, top, left);
      stage_panel(lower, dim, first, start, right);
      __syncthreads();
      double sum[own][own] = {};
      KVEVICT_NO_UNROLL
      for (int k = 0; k < cholesky_panel; ++k) {
        double of_column[own];
        KVEVICT_UNROLL
        for (int j = 0; j < own; ++j) of_column[j] = right[c0 + side * j][k];
        KVEVICT_UNROLL
        for (int i = 0; i < own; ++i) {
          const double of_row = left[r0 + side * i][k];
          KVEVICT_UNROLL
          for (int j = 0; j < own; ++j) sum[i][j] += of_row * of_column[j];
        }
      }
      KVEVICT_UNROLL
      for (int i = 0; i < own; ++i) {
        const int row = top + r0 + side * i;
        KVEVICT_UNROLL
        for (int j = 0; j < own; ++j) {
          const int column = start + c0 + side * j;
          if (row < dim && column <= row) lower[std::int64_t{row} * dim + column] -= sum[i][j];
        }
      }
    }
  }
}

/// s2 of a matrix, in the unit of its head's roots.
__device__ inline double noise_of(const Noise& noise, double trace, int dim,
                                  const std::uint32_t* largest) {
  if (noise.kind == Noise::Kind::relative) return noise.value * trace / static_cast<double>(dim);
  const double unit = largest != nullptr ? inverse_of_root(*largest) : 1.0;
  return noise.value * (unit * unit);
}

/// Blocked right-looking Cholesky factorisation, one block for a matrix: dim^3 / 3 flops in double,
/// and the triangle read and written dim / 16 times, from the L2 cache. Few matrices are bound by
/// latency, about dim / 16 panels of 5 microseconds; 300 of dim 128 fill a device.
static __global__ void __launch_bounds__(cholesky_threads, 2) factorize(Factorizations task) {
  KVEVICT_SHARED(double, block, [cholesky_panel][cholesky_panel + 1]);
  KVEVICT_SHARED(double, inverses, [cholesky_panel]);
  KVEVICT_SHARED(double, left, [cholesky_tile][cholesky_panel + 1]);
  KVEVICT_SHARED(double, right, [cholesky_tile][cholesky_panel + 1]);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t m = blockIdx.x;
  const int dim = static_cast<int>(task.matrices.shape[1]);
  double* lower = task.lower + m * dim * dim;
  if (thread == 0) task.overflows[m] = 0;

  double part = 0.0;
  for (int i = thread; i < dim; i += cholesky_threads) part += task.matrices(m, i, i);
  const double trace = reduce_block<cholesky_threads>(part, Sum{});
  const double s2 =
      noise_of(task.noise, trace, dim, task.largest != nullptr ? task.largest + m : nullptr);
  CapacityOutcome outcome = CapacityOutcome::usable;
  if (!std::isfinite(trace)) {
    outcome = CapacityOutcome::failed;
  } else if (!(trace > 0.0) || !(s2 > 0.0)) {
    outcome = CapacityOutcome::zero;
  }
  if (outcome != CapacityOutcome::usable) {
    if (thread == 0) task.outcomes[m] = outcome;
    return;
  }
  for (int i = thread; i < dim * dim; i += cholesky_threads) {
    const int row = i / dim;
    const int column = i % dim;
    if (column <= row) lower[i] = task.matrices(m, row, column) + (row == column ? s2 : 0.0);
  }
  for (int first = 0; first < dim; first += cholesky_panel) {
    __syncthreads();
    const int row = thread / cholesky_panel;
    const int column = thread % cholesky_panel;
    const bool inside = first + row < dim && column <= row;
    double* place = lower + std::int64_t{first + row} * dim + first + column;
    // Ones on the diagonal behind the last row.
    block[row][column] = inside ? *place : (row == column ? 1.0 : 0.0);
    __syncthreads();
    if (!factorize_diagonal(block, inverses)) {
      outcome = CapacityOutcome::failed;
      break;
    }
    if (inside) *place = block[row][column];
    solve_panel(block, inverses, lower, dim, first);
    update_behind_panel(lower, dim, first, left, right);
  }
  if (thread == 0) task.outcomes[m] = outcome;
}

}  // namespace detail

inline void enqueue_factorizations(Resources& res, const Factorizations& task) {
  launch(res, "factorize", detail::factorize, task.matrices.shape[0], detail::cholesky_threads, 0,
         task);
}

}  // namespace kvevict::cuda
