// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/row_sweep.cuh"
#include "kvevict/cuda/tile_product.cuh"

namespace kvevict::cuda {

/// What a row x and a matrix M give.
enum class RowForm {
  quadratic,    ///< x . M x, M square
  norm,         ///< |M x|_2
  absolute_sum  ///< |M x|_1
};

namespace detail {

/// The sum of the squares of one thread's products in a row; in double where those leave the range
/// of fp32.
template <int Count>
__device__ double squares_of_products(const float (&products)[Count]) {
  float sum = 0.0f;
  KVEVICT_UNROLL
  for (int j = 0; j < Count; ++j) sum += products[j] * products[j];
  if (squares_in_range(sum)) return static_cast<double>(sum);
  double wide = 0.0;
  KVEVICT_UNROLL
  for (int j = 0; j < Count; ++j) {
    wide += static_cast<double>(products[j]) * static_cast<double>(products[j]);
  }
  return wide;
}

/// The sum of the magnitudes of one thread's products in a row.
template <int Count>
__device__ double sum_of_magnitudes(const float (&products)[Count]) {
  double sum = 0.0;
  KVEVICT_UNROLL
  for (int j = 0; j < Count; ++j) sum += static_cast<double>(fabsf(products[j]));
  return sum;
}

/// The sum of one thread's products in a row by the row's channels from `first` on, 16 apart, times
/// `scale`.
template <int Count, class T>
__device__ double products_by_row(const float (&products)[Count], const T* row, float scale,
                                  const HeadView<const T, MemorySpace::device>& head, int first) {
  float sum = 0.0f;
  KVEVICT_UNROLL
  for (int j = 0; j < Count; ++j) {
    const int channel = first + 16 * j;
    if (channel < head.dim) {
      sum += products[j] * (scale * channel_of<T>(row, channel, head.channel_stride));
    }
  }
  return static_cast<double>(sum);
}

/// One block for 64 rows and one matrix of the group of their head: products leave the registers as
/// a sum for each row. 2 dim^2 flops for dim elements of a row, which come from memory once for all
/// matrices of a group and from the caches otherwise: bound by fp32 arithmetic.
template <RowForm Form, int Columns, class T, class Store>
__global__ void __launch_bounds__(
    128, resident_blocks<T>(Form == RowForm::quadratic && Columns == 64 ? 2 : 3))
    form_rows(RowsView<const T, MemorySpace::device> rows,
              MatrixBatchView<const float, MemorySpace::device> matrices, int group, float scale,
              std::int64_t tiles, Store store) {
  using Product = TileProduct<float, Columns>;
  const int thread = static_cast<int>(threadIdx.x);
  // Matrices of a group are neighbours: all but the first find the rows in the cache.
  const std::int64_t block = blockIdx.x / static_cast<unsigned>(group);
  const auto in_group = static_cast<int>(blockIdx.x % static_cast<unsigned>(group));
  const HeadTile tile = head_tile(block, tiles, Product::rows, rows.layout());
  if (tile.count == 0) return;
  const std::int64_t m = tile.head * group + in_group;
  const HeadView<const T, MemorySpace::device> head = rows.head(tile.head);
  const HeadView<const float, MemorySpace::device> matrix = matrix_rows(matrices, m);
  KVEVICT_SHARED(float4, slices, [Product::slices_size / 4]);
  KVEVICT_SHARED(double, sums, [sum_columns_size]);
  KVEVICT_SHARED(const T*, row_starts, [Product::rows]);
  float* a = reinterpret_cast<float*>(slices);
  float* b = a + Product::rows * Product::pitch;
  const int count = static_cast<int>(tile.count);
  const int dim = static_cast<int>(head.dim);
  const int outputs = static_cast<int>(matrix.rows);
  const bool whole = in_whole_pieces(head);
  const bool whole_matrix = in_whole_pieces(matrix);
  if constexpr (Form == RowForm::quadratic) {
    const HeadRows<T> row_of{head, tile.first, count};
    if (thread < Product::rows) row_starts[thread] = row_of(thread);
  }
  double total = 0.0;
  for (int column = 0; column < outputs; column += Columns) {
    Product product;
    product.clear();
    for (int k = 0; k < dim; k += Product::depth) {
      __syncthreads();
      stage_rows<Product::rows, T>(HeadRows<T>{head, tile.first, count}, head.channel_stride, dim,
                                   whole, k, a, RowScales<T>{head, tile.first});
      stage_rows<Columns, float>(HeadRows<float>{matrix, column, outputs - column},
                                 matrix.channel_stride, dim, whole_matrix, k, b, SameScale{scale});
      __syncthreads();
      product.add(a, b, dim - k);
    }
    double of_row[Product::row_count];
    KVEVICT_UNROLL
    for (int i = 0; i < Product::row_count; ++i) {
      if constexpr (Form == RowForm::norm) {
        of_row[i] = squares_of_products(product.sum[i]);
      } else if constexpr (Form == RowForm::absolute_sum) {
        of_row[i] = sum_of_magnitudes(product.sum[i]);
      } else {
        const T* row = row_starts[Product::row(i)];
        of_row[i] = row != nullptr ? products_by_row(product.sum[i], row,
                                                     head.scale_of(tile.first + Product::row(i)),
                                                     head, column + Product::column(0))
                                   : 0.0;
      }
    }
    total += sum_columns(of_row, sums);
  }
  if (thread < count) {
    store(tile.head, m, tile.first + thread, Form == RowForm::norm ? sqrt(total) : total);
  }
}

}  // namespace detail

/// Calls store(head, m, row, form) in kernels for every row of every head and each matrix scale * m
/// of the head's `group`; matrices are [heads * group][dim][dim].
template <RowForm Form, class T, class Store>
void enqueue_row_forms(Resources& res, const char* name,
                       const RowsView<const T, MemorySpace::device>& rows,
                       const MatrixBatchView<const float, MemorySpace::device>& matrices,
                       std::int64_t group, float scale, const Store& store) {
  const std::int64_t tiles = tiles_of(rows.layout().longest(), 64);
  with_tile_columns(matrices.shape[1], [&](auto columns) {
    launch(res, name, detail::form_rows<Form, decltype(columns)::value, T, Store>,
           rows.heads() * tiles * group, 128, 0, rows, matrices, static_cast<int>(group), scale,
           tiles, store);
  });
}

}  // namespace kvevict::cuda
