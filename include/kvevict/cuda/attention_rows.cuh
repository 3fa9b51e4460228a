// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/core/scores.hpp"
#include "kvevict/cuda/attention_states.cuh"
#include "kvevict/cuda/query_tile.cuh"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/math/exponential.hpp"
#include "kvevict/ops/attention_statistic.hpp"

namespace kvevict::cuda {

namespace detail {

/// What one attention weight adds to the statistic.
__device__ inline float statistic_term(AttentionStatistic statistic, float z,
                                       const QueryWeight& weight) {
  const float e = exp_nonpositive(z - weight.maximum);
  const float p = e * weight.inverse;
  if (statistic == AttentionStatistic::root_mean_square) return p * p;
  if (statistic == AttentionStatistic::mean_jacobian_diagonal) {
    // A weight above one half can come so near 1 that 1 - p loses its digits.
    return e > weight.half_sum ? weight.diagonal : p * (1.0f - p);
  }
  return p;
}

/// The statistic of one row over the queries of each query head, which come one head after another.
struct RowStatistic {
  AttentionStatistic statistic;
  std::int64_t queries;  ///< of each query head
  std::int64_t left;     ///< of the present one
  std::int64_t head;     ///< the present query head
  float total;

  __device__ RowStatistic(AttentionStatistic which, std::int64_t count, std::int64_t first_head)
      : statistic(which), queries(count), left(count), head(first_head), total(0.0f) {}

  /// Adds one term; `row` is where the row stands in its heads.
  __device__ void add(float term, const ScoreView<MemorySpace::device>& out, std::int64_t row) {
    total = statistic == AttentionStatistic::maximum ? Maximum{}(total, term) : total + term;
    if (--left > 0) return;
    out.head(head)[row] = finished();
    ++head;
    left = queries;
    total = 0.0f;
  }

  __device__ float finished() const {
    const float share = 1.0f / static_cast<float>(queries);
    switch (statistic) {
      case AttentionStatistic::mean:
      case AttentionStatistic::mean_jacobian_diagonal:
        return total * share;
      case AttentionStatistic::root_mean_square:
        return sqrtf(total * share);
      case AttentionStatistic::sum:
      case AttentionStatistic::maximum:
        break;
    }
    return total;
  }
};

/// One block for 64 rows of a head and all its queries: computes their logits once more and adds up
/// the statistic of each row, query after query. Flops and bytes as in `attention_states`, and 4
/// bytes written for each row of each query head.
template <class T, int Columns>
__global__ void __launch_bounds__(128, resident_blocks<T>(Columns == 64 ? 4 : 3))
    attention_rows(RowsView<const T, MemorySpace::device> keys, StackedQueries stacked,
                   std::int64_t row_tiles, AttentionStatistic statistic, const QueryWeight* weights,
                   ScoreView<MemorySpace::device> out) {
  using Tile = LogitTile<T, Columns>;
  using Product = typename Tile::Product;
  const int thread = static_cast<int>(threadIdx.x);
  const HeadTile rows = head_tile(blockIdx.x, row_tiles, Product::rows, keys.layout());
  if (rows.count == 0) return;
  const std::int64_t h = rows.head;
  const auto head = keys.head(h);
  const int count = static_cast<int>(rows.count);
  KVEVICT_SHARED(float4, shared, [Tile::shared_size]);
  KVEVICT_SHARED(const T*, key_rows, [Product::rows]);
  KVEVICT_SHARED(const void*, query_rows, [Columns]);
  KVEVICT_SHARED(QueryWeight, tile_weights, [Columns]);
  KVEVICT_SHARED(int, tile_visible, [Columns]);
  float* terms = reinterpret_cast<float*>(shared);
  Tile tile{head, &stacked, terms, key_rows, query_rows, in_whole_pieces(head), false};
  RowStatistic of_row(statistic, stacked.queries.count(), h * stacked.group);

  for (std::int64_t first = 0; first < stacked.count(); first += Columns) {
    tile.set_queries(h, first);
    int seen = 0;
    QueryWeight weight{0.0f, 0.0f, 0.0f, 0.0f};
    if (thread < Columns && first + thread < stacked.count()) {
      const std::int64_t visible = stacked.visible_rows(h, first + thread, head.rows) - rows.first;
      seen = static_cast<int>(visible < 0 ? 0 : (visible < count ? visible : count));
      weight = weights[h * stacked.count() + first + thread];
    }
    if (thread < Columns) {
      tile_visible[thread] = seen;
      tile_weights[thread] = weight;
    }
    // No query of the tile sees a row of this block: their terms are zero.
    const bool any = __syncthreads_or(seen) != 0;
    if (any) {
      Product product;
      tile.compute(product, rows.first, count);
      __syncthreads();
      KVEVICT_UNROLL
      for (int j = 0; j < Product::column_count; ++j) {
        const int column = Product::column(j);
        const QueryWeight of_column = tile_weights[column];
        const int visible = tile_visible[column];
        KVEVICT_UNROLL
        for (int i = 0; i < Product::row_count; ++i) {
          const int row = Product::row(i);
          terms[row * Tile::pitch + column] =
              row < visible ? statistic_term(statistic, product.sum[i][j], of_column) : 0.0f;
        }
      }
      __syncthreads();
    }
    if (thread >= count) continue;
    const std::int64_t left = stacked.count() - first;
    for (int c = 0; c < Columns && c < left; ++c) {
      of_row.add(any ? terms[thread * Tile::pitch + c] : 0.0f, out, rows.first + thread);
    }
  }
}

}  // namespace detail

}  // namespace kvevict::cuda
