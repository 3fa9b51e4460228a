// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/cuda/cholesky.cuh"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/tile_product.cuh"

namespace kvevict::cuda {

/// Arguments of the kernels that turn L into F = L^-1 R.
struct FactorSolves {
  const double* lower = nullptr;                                 ///< [matrix][dim][dim]
  MatrixBatchView<const float, MemorySpace::device> transforms;  ///< R, or empty: I
  double* solution = nullptr;                                    ///< [matrix][dim][dim], scratch
  MatrixBatchView<float, MemorySpace::device> factors;
  CapacityOutcome* outcomes = nullptr;
  int* overflows = nullptr;
};

namespace detail {

/// A dim x dim operand of `square_product`: a batch of doubles or of floats.
template <class Number>
struct SquareOperand {
  MatrixBatchView<const Number, MemorySpace::device> matrices;

  __device__ double operator()(std::int64_t m, int row, int column) const {
    return static_cast<double>(matrices(m, row, column));
  }
};

/// C = A B^T of square matrices in double, one block for a 64 x 64 tile; with `Lower`, of the lower
/// triangle. 2 dim^3 flops for each matrix: bound by arithmetic.
template <bool Lower, class A, class B>
__global__ void __launch_bounds__(128) square_product(A left, B right, int dim, double* out) {
  using Product = TileProduct<double, 64>;
  KVEVICT_SHARED(double2, slices, [Product::slices_size / 2]);
  double* a = reinterpret_cast<double*>(slices);
  double* b = a + Product::rows * Product::pitch;
  const int tiles = (dim + 63) / 64;
  const std::int64_t block = blockIdx.x;
  const std::int64_t m = block / (tiles * tiles);
  const int tile = static_cast<int>(block % (tiles * tiles));
  const int row = tile / tiles * 64;
  const int column = tile % tiles * 64;
  if (Lower && column > row) return;
  Product product;
  product.clear();
  for (int first = 0; first < dim; first += Product::depth) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < 64 * Product::depth; i += 128) {
      const int r = i / Product::depth;
      const int k = i % Product::depth;
      const bool inside = first + k < dim;
      a[r * Product::pitch + k] = inside && row + r < dim ? left(m, row + r, first + k) : 0.0;
      b[r * Product::pitch + k] =
          inside && column + r < dim ? right(m, column + r, first + k) : 0.0;
    }
    __syncthreads();
    product.add(a, b, dim - first);
  }
  double* to = out + m * dim * dim;
  KVEVICT_UNROLL
  for (int i = 0; i < Product::row_count; ++i) {
    KVEVICT_UNROLL
    for (int j = 0; j < Product::column_count; ++j) {
      const int r = row + Product::row(i);
      const int c = column + Product::column(j);
      if (r < dim && c < dim) to[std::int64_t{r} * dim + c] = product.sum[i][j];
    }
  }
}

inline constexpr int solve_columns = 64;

/// Solves L X = R by forward substitution, one thread for a column of X and 16 rows of it at a
/// time: dim^3 flops for each matrix, a third of it for R = I, whose columns begin at the diagonal.
/// L is read once for 64 columns.
static __global__ void __launch_bounds__(solve_columns, 8)
    solve_factors(FactorSolves task, int dim) {
  constexpr int panel = cholesky_panel;
  constexpr int chunk = solve_columns;
  KVEVICT_SHARED(double, of_lower, [chunk][panel + 1]);
  const int thread = static_cast<int>(threadIdx.x);
  const int groups = (dim + solve_columns - 1) / solve_columns;
  const std::int64_t block = blockIdx.x;
  const std::int64_t m = block / groups;
  const int start = static_cast<int>(block % groups) * solve_columns;
  const int column = start + thread;
  const bool inside = column < dim;
  const bool usable = task.outcomes[m] == CapacityOutcome::usable;
  const bool identity = task.transforms.empty();
  const double* lower = task.lower + m * dim * dim;
  double* x = task.solution + m * dim * dim + column;
  // Rows above the first column of an identity are zero. start is a multiple of the panel.
  const int top = !usable ? dim : (identity ? start : 0);
  for (int row = 0; inside && row < top; ++row) task.factors(m, row, column) = 0.0f;

  bool finite = true;
  for (int first = top; first < dim; first += panel) {
    double sum[panel];
    KVEVICT_UNROLL
    for (int r = 0; r < panel; ++r) {
      const int row = first + r;
      sum[r] = 0.0;
      if (!inside || row >= dim) continue;
      sum[r] = identity ? (row == column ? 1.0 : 0.0)
                        : static_cast<double>(task.transforms(m, row, column));
    }
    for (int k0 = top; k0 < first; k0 += chunk) {
      const int count = first - k0 < chunk ? first - k0 : chunk;
      __syncthreads();
      for (int r = 0; thread < count && r < panel; ++r) {
        of_lower[thread][r] =
            first + r < dim ? lower[std::int64_t{first + r} * dim + k0 + thread] : 0.0;
      }
      __syncthreads();
      KVEVICT_NO_UNROLL
      for (int k = 0; inside && k < count; ++k) {
        const double known = x[std::int64_t{k0 + k} * dim];
        KVEVICT_UNROLL
        for (int r = 0; r < panel; ++r) sum[r] -= of_lower[k][r] * known;
      }
    }
    __syncthreads();
    for (int i = thread; i < panel * panel; i += solve_columns) {
      const int row = first + i / panel;
      const int k = i % panel;
      // Ones on the diagonal behind the last row.
      of_lower[k][i / panel] = row < dim && first + k < dim
                                   ? lower[std::int64_t{row} * dim + first + k]
                                   : (i / panel == k ? 1.0 : 0.0);
    }
    __syncthreads();
    KVEVICT_UNROLL
    for (int r = 0; r < panel; ++r) {
      sum[r] /= of_lower[r][r];
      KVEVICT_UNROLL
      for (int below = r + 1; below < panel; ++below) sum[below] -= of_lower[r][below] * sum[r];
      if (!inside || first + r >= dim) continue;
      const auto rounded = static_cast<float>(sum[r]);
      finite = finite && std::isfinite(rounded);
      x[std::int64_t{first + r} * dim] = sum[r];
      task.factors(m, first + r, column) = rounded;
    }
  }
  if (!finite) atomicOr(task.overflows + m, 1);
}

/// Settles what became of each matrix: factors that left the range of fp32 become zeros, and the
/// report counts. A block for each matrix.
static __global__ void __launch_bounds__(128)
    settle_factors(FactorSolves task, int dim, Counters* counters) {
  const std::int64_t m = blockIdx.x;
  const CapacityOutcome outcome = task.outcomes[m];
  const bool overflowed = outcome == CapacityOutcome::usable && task.overflows[m] != 0;
  if (overflowed) {
    for (int i = static_cast<int>(threadIdx.x); i < dim * dim; i += 128) {
      task.factors(m, i / dim, i % dim) = 0.0f;
    }
  }
  __syncthreads();  // the outcome has been read
  if (threadIdx.x != 0) return;
  if (overflowed) task.outcomes[m] = CapacityOutcome::failed;
  if (outcome == CapacityOutcome::zero) atomicAdd(&counters->zero_capacity_heads, 1ull);
  if (outcome == CapacityOutcome::failed || overflowed) {
    atomicAdd(&counters->failed_factorizations, 1ull);
  }
}

}  // namespace detail

/// M = R G R^T for each matrix, of which the lower triangle is written to `out`; `scratch` holds as
/// much. `out` may be the memory of `gram`.
inline void enqueue_transforms(Resources& res,
                               const MatrixBatchView<const double, MemorySpace::device>& gram,
                               const MatrixBatchView<const float, MemorySpace::device>& transforms,
                               double* scratch, double* out) {
  using detail::SquareOperand;
  const std::int64_t heads = gram.shape[0];
  const std::int64_t dim = gram.shape[1];
  const std::int64_t tiles = tiles_of(dim, 64) * tiles_of(dim, 64);
  const SquareOperand<float> r{transforms};
  const SquareOperand<double> g{gram};
  // G is symmetric: R G = R G^T.
  launch(res, "square_product",
         detail::square_product<false, SquareOperand<float>, SquareOperand<double>>, heads * tiles,
         128, 0, r, g, static_cast<int>(dim), scratch);
  const SquareOperand<double> rg{
      MatrixBatchView<const double, MemorySpace::device>::packed(scratch, heads, dim, dim)};
  launch(res, "square_product",
         detail::square_product<true, SquareOperand<double>, SquareOperand<float>>, heads * tiles,
         128, 0, rg, r, static_cast<int>(dim), out);
}

inline void enqueue_solves(Resources& res, const FactorSolves& task) {
  const std::int64_t heads = task.factors.shape[0];
  const auto dim = static_cast<int>(task.factors.shape[1]);
  launch(res, "solve_factors", detail::solve_factors, heads * tiles_of(dim, detail::solve_columns),
         detail::solve_columns, 0, task, dim);
  launch(res, "settle_factors", detail::settle_factors, heads, 128, 0, task, dim, res.counters());
}

}  // namespace kvevict::cuda
