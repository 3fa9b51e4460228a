// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/row_range.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/tile_product.cuh"

namespace kvevict::cuda {

/// What became of one capacity matrix.
enum class CapacityOutcome : int { usable, zero, failed };

/// 1 / the largest root of a head, given its bits; 0 when there is none above zero, NaN when one is
/// NaN.
__device__ inline double inverse_of_root(std::uint32_t bits) {
  const auto root = static_cast<double>(kvevict::detail::bit_cast<float>(bits));
  return bits == 0 ? 0.0 : 1.0 / root;
}

/// For kernels that take a range of each head's rows and a vector off them: [head][dim].
struct CentredRows {
  const float* centres = nullptr;
  RowRange range = {};

  __device__ const float* of_head(std::int64_t head, std::int64_t dim) const {
    return centres + head * dim;
  }
};

/// Arguments of the kernel: matrix m of the factors belongs to block first + m of the roots and
/// scores, which belongs to head (first + m) / group of the rows.
struct Leverages {
  MatrixBatchView<const float, MemorySpace::device> factors;
  ScoreView<MemorySpace::device> roots;
  ScoreView<MemorySpace::device> scores;
  std::int64_t group = 1;
  std::int64_t first = 0;
  bool lower_triangular = false;              ///< factors have nothing above the diagonal
  const CapacityOutcome* outcomes = nullptr;  ///< of the matrices: 0 throughout unless usable
  const std::uint32_t* largest = nullptr;     ///< bits of the unit of the roots of each matrix
  CentredRows centred = {};                   ///< for kernels that centre their rows
};

namespace detail {

/// Whether a sum of squares in fp32 has neither overflowed nor been made of underflowed squares.
__device__ inline bool sum_of_squares_holds(float sum) { return sum > 1e-30f && sum < 1e37f; }

/// The sum of the squares of one thread's products in a row.
template <int Count>
__device__ double sum_of_squares(const float (&products)[Count]) {
  float sum = 0.0f;
  KVEVICT_UNROLL
  for (int j = 0; j < Count; ++j) sum += products[j] * products[j];
  if (sum_of_squares_holds(sum)) return static_cast<double>(sum);
  double wide = 0.0;
  KVEVICT_UNROLL
  for (int j = 0; j < Count; ++j) {
    wide += static_cast<double>(products[j]) * static_cast<double>(products[j]);
  }
  return wide;
}

/// Adds a slice of the product, of which columns that are zero in a lower triangle are left out:
/// `above` is the first channel of the slice less the first column of the tile.
template <class Product>
__device__ void add_lower(Product& product, const float* a, const float* b, int left, int above) {
  if (above <= 0) {
    product.template add<0>(a, b, left);
  } else if (above <= 32) {
    product.template add<2>(a, b, left);
  } else if constexpr (Product::columns > 64) {
    if (above <= 64) {
      product.template add<4>(a, b, left);
    } else {
      product.template add<6>(a, b, left);
    }
  }
}

/// One block for 64 rows of one matrix: each thread squares its part of F V^T as it leaves the
/// registers. 2 dim^2 flops a row (a little more than half for a lower triangle) for dim elements
/// of the cache, which are read from memory once (again from the cache when dim > Columns), and
/// Columns floats of F for each of them from the L2 cache: bound by fp32 arithmetic.
template <class T, int Columns, bool Centred>
__global__ void __launch_bounds__(128, Columns > 64 ? 3 : 4)
    leverage_rows(RowsView<const T, MemorySpace::device> values, Leverages task,
                  std::int64_t tiles) {
  using Product = TileProduct<float, Columns>;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t m = blockIdx.x / tiles;
  const std::int64_t block = task.first + m;
  const auto head = values.head(block / task.group);
  const std::int64_t begin = Centred ? task.centred.range.begin(head.rows) : 0;
  const std::int64_t rows = Centred ? task.centred.range.count(head.rows) : head.rows;
  const float* roots = task.roots.head(block) + begin;
  const std::int64_t first_row = blockIdx.x % tiles * Product::rows;
  const std::int64_t left = rows - first_row;
  if (left <= 0) return;
  const int count = static_cast<int>(left < Product::rows ? left : Product::rows);
  float* scores = task.scores.head(block) + begin + first_row;
  if (task.outcomes != nullptr && task.outcomes[m] != CapacityOutcome::usable) {
    if (thread < count) scores[thread] = 0.0f;
    return;
  }
  KVEVICT_SHARED(float4, slices, [Product::slices_size / 4]);
  KVEVICT_SHARED(double, sums, [sum_columns_size]);
  float* a = reinterpret_cast<float*>(slices);
  float* b = a + Product::rows * Product::pitch;
  const int dim = static_cast<int>(head.dim);
  const bool whole = in_whole_pieces(head);
  const HeadView<const float, MemorySpace::device> factor = matrix_rows(task.factors, m);
  const bool whole_factor = in_whole_pieces(factor);
  const int outputs = static_cast<int>(factor.rows);

  double total = 0.0;
  for (int column = 0; column < outputs; column += Columns) {
    Product product;
    product.clear();
    const int end = task.lower_triangular && column + Columns < dim ? column + Columns : dim;
    for (int k = 0; k < end; k += Product::depth) {
      __syncthreads();
      stage_rows<Product::rows, T>(HeadRows<T>{head, begin + first_row, count}, head.channel_stride,
                                   dim, whole, k, a, RowScales<T>{head, begin + first_row});
      stage_rows<Columns, float>(HeadRows<float>{factor, column, outputs - column},
                                 factor.channel_stride, dim, whole_factor, k, b);
      __syncthreads();
      if constexpr (Centred) {
        const float* centre = task.centred.of_head(block / task.group, dim);
        KVEVICT_NO_UNROLL
        for (int e = thread; e < Product::rows * Product::depth; e += 128) {
          const int c = k + e % Product::depth;
          if (c < dim) a[e / Product::depth * Product::pitch + e % Product::depth] -= centre[c];
        }
        __syncthreads();
      }
      add_lower(product, a, b, dim - k, task.lower_triangular ? k - column : 0);
    }
    double squares[Product::row_count];
    KVEVICT_UNROLL
    for (int i = 0; i < Product::row_count; ++i) squares[i] = sum_of_squares(product.sum[i]);
    total += sum_columns(squares, sums);
  }
  if (thread >= count) return;
  const double unit = task.largest != nullptr ? inverse_of_root(task.largest[m]) : 1.0;
  const double length = sqrt(total) * unit * static_cast<double>(roots[first_row + thread]);
  scores[thread] = static_cast<float>(length * length);
}

}  // namespace detail

/// scores[i] = |F (root_i v_i)|^2 for `matrices` matrices, in one launch.
template <class T, bool Centred = false>
void enqueue_leverages(Resources& res, const RowsView<const T, MemorySpace::device>& values,
                       const Leverages& task, std::int64_t matrices) {
  const std::int64_t tiles = tiles_of(values.layout().longest(), 64);
  with_tile_columns(task.factors.shape[1], [&](auto columns) {
    launch(res, "leverage_rows", detail::leverage_rows<T, decltype(columns)::value, Centred>,
           matrices * tiles, 128, 0, values, task, tiles);
  });
}

}  // namespace kvevict::cuda
