// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/positions.hpp"
#include "kvevict/core/queries.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/cuda/row_splits.cuh"
#include "kvevict/cuda/tile_product.cuh"

namespace kvevict::cuda {

/// The queries of a head's group under each other: query s = g count + i is query i of query head
/// head * group + g, so that keys are read once for all of them.
struct StackedQueries {
  /// Of the rows of a head, for the states of its queries.
  using Splits = RowSplits<1024, 64>;

  QueriesView<MemorySpace::device> queries = {};
  std::int64_t group = 1;
  float scale = 1.0f;
  std::int64_t max_splits = 1;
  const std::int64_t* visible = nullptr;  ///< [head][query] rows that each sees; null: all

  /// Of each head.
  KVEVICT_HOST_DEVICE std::int64_t count() const { return group * queries.count(); }

  __device__ std::int64_t visible_rows(std::int64_t head, std::int64_t s, std::int64_t rows) const {
    if (visible == nullptr) return rows;
    return visible[head * queries.count() + s % queries.count()];
  }
  __device__ const void* row(std::int64_t head, std::int64_t s) const {
    return queries.row(head * group + s / queries.count(), s % queries.count());
  }
};

/// Logits of 64 rows and `Columns` stacked queries of a head, by the 128 threads of a block.
template <class T, int Columns>
struct LogitTile {
  using Product = TileProduct<float, Columns>;
  /// Between the rows of a tile of results: threads that write 4 x 8 of them meet two to a bank,
  /// threads that read a column or a row do not meet.
  static constexpr int pitch = Columns + 9;
  static constexpr int results = Product::rows * pitch;
  /// Slices of the operands, and later results, in units of 16 bytes.
  static constexpr int shared_size =
      (results > Product::slices_size ? results : Product::slices_size) / 4 + 1;

  HeadView<const T, MemorySpace::device> head;
  const StackedQueries* stacked;
  float* shared;
  const T** key_rows;       ///< shared, [Product::rows]
  const void** query_rows;  ///< shared, [Columns]
  bool whole_keys;
  bool whole_queries;

  /// Points `query_rows` to the queries from `first` on. All threads call it; contains barriers.
  __device__ void set_queries(std::int64_t of_head, std::int64_t first) {
    const int thread = static_cast<int>(threadIdx.x);
    const QueriesView<MemorySpace::device>& queries = stacked->queries;
    const std::int64_t size = 16 / size_of(queries.type());
    bool aligned = queries.dim() % size == 0;
    __syncthreads();
    if (thread < Columns) {
      const std::int64_t s = first + thread;
      const void* row = s < stacked->count() ? stacked->row(of_head, s) : nullptr;
      query_rows[thread] = row;
      aligned = aligned && reinterpret_cast<std::uintptr_t>(row) % 16 == 0;
    }
    whole_queries = __syncthreads_and(aligned ? 1 : 0) != 0;
  }

  /// Writes the results of `compute` to `shared`, `pitch` apart. Barriers before and behind it are
  /// the caller's.
  __device__ void store(const Product& product) const {
    KVEVICT_UNROLL
    for (int i = 0; i < Product::row_count; ++i) {
      KVEVICT_UNROLL
      for (int j = 0; j < Product::column_count; ++j) {
        shared[Product::row(i) * pitch + Product::column(j)] = product.sum[i][j];
      }
    }
  }

  /// Logits of rows [first, first + count). Contains barriers; none behind the last use of
  /// `shared`.
  __device__ void compute(Product& product, std::int64_t first, int count) const {
    const int dim = static_cast<int>(head.dim);
    float* a = shared;
    float* b = shared + Product::rows * Product::pitch;
    product.clear();
    // Where rows are is found once, and not for each slice.
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < Product::rows) key_rows[thread] = HeadRows<T>{head, first, count}(thread);
    for (int k = 0; k < dim; k += Product::depth) {
      __syncthreads();
      stage_rows<Product::rows, T>([&](int r) { return key_rows[r]; }, head.channel_stride, dim,
                                   whole_keys, k, a, RowScales<T>{head, first});
      switch (stacked->queries.type()) {
        case ElementType::float32:
          stage_queries<float>(dim, k, b);
          break;
        case ElementType::float16:
          stage_queries<half>(dim, k, b);
          break;
        case ElementType::bfloat16:
          stage_queries<bfloat16>(dim, k, b);
          break;
      }
      __syncthreads();
      product.add(a, b, dim - k);
    }
  }

 private:
  template <class Q>
  __device__ void stage_queries(int dim, int first, float* to) const {
    stage_rows<Columns, Q>([&](int c) { return static_cast<const Q*>(query_rows[c]); }, 1, dim,
                           whole_queries, first, to, SameScale{stacked->scale});
  }
};

/// How many queries a tile holds: few for decoding steps, which read more keys than they compute.
/// Calls `use(std::integral_constant<int, ...>)`.
template <class Use>
void with_query_columns(std::int64_t count, Use&& use) {
  if (count <= 16) {
    use(std::integral_constant<int, 16>{});
  } else if ((count + 127) / 128 * 128 > (count + 63) / 64 * 64) {
    use(std::integral_constant<int, 64>{});
  } else {
    use(std::integral_constant<int, 128>{});
  }
}

}  // namespace kvevict::cuda
