// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/cuda/attention_states.cuh"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/query_tile.cuh"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/cuda/tile_product.cuh"
#include "kvevict/math/exponential.hpp"

namespace kvevict::cuda::detail {

/// What the rows' changes are measured against: of each probe its weight, its output as it is seen
/// (through a projection or not), and the change when its dominant row leaves.
struct ProbeOutputs {
  const QueryWeight* weights;  ///< [query_head][query]
  std::int64_t group;
  std::int64_t queries;
  std::int64_t dim;     ///< channels of outputs
  const float* seen;    ///< [query_head][query][dim]
  const float* losses;  ///< [query_head][query]
};

/// Whether a query has a row with more than half of its weight; its exponential is then 1.
__device__ inline bool is_dominated(const QueryWeight& weight) {
  return weight.inverse > 0.0f && weight.half_sum < 1.0f;
}

/// What exponentials are multiplied by for weights that sum to one, without the dominant row where
/// there is one; 0 where nothing is left.
__device__ inline float weight_of_exponential(const QueryWeight& weight) {
  if (!is_dominated(weight)) return weight.inverse;
  const double others = static_cast<double>(weight.diagonal) /
                        (static_cast<double>(weight.inverse) * static_cast<double>(weight.inverse));
  return others > 0.0 ? static_cast<float>(1.0 / others) : 0.0f;
}

/// Stages rows [0, 64) and channels [first, first + 64) of a tile of values turned over, as two
/// slices [channel][32 rows] for TileProduct. `rows` are the head's from `first_row` on.
template <class T>
__device__ void stage_channels(const T* const* rows,
                               const HeadView<const T, MemorySpace::device>& head,
                               std::int64_t first_row, int first, float* to) {
  using Product = TileProduct<float, 64>;
  // A warp has 8 channels of 4 rows: adjacent in memory, and each in a bank of its own.
  for (int i = static_cast<int>(threadIdx.x); i < 64 * 64; i += Product::threads) {
    const int channel = i / 32 % 8 * 8 + i % 8;
    const int row = i / 256 * 4 + i / 8 % 4;
    const T* at = first + channel < head.dim ? rows[row] : nullptr;
    to[row / 32 * 64 * Product::pitch + channel * Product::pitch + row % 32] =
        at != nullptr ? head.scale_of(first_row + row) *
                            channel_of<T>(at, first + channel, head.channel_stride)
                      : 0.0f;
  }
}

/// outputs[query_head][query][dim]: attention outputs over the rows but the dominant one, which is
/// found on the way: dominant[query_head][query], -1 for none. One block for 64 queries of a query
/// head and 64 channels, which runs through all rows: 2 dim flops of keys and 128 of values, and an
/// exponential, for each pair.
template <class T>
__global__ void __launch_bounds__(128, 2)
    drop_loss_outputs(RowsView<const T, MemorySpace::device> keys,
                      RowsView<const T, MemorySpace::device> values, StackedQueries stacked,
                      std::int64_t group, std::int64_t query_tiles, std::int64_t channel_tiles,
                      const QueryWeight* weights, float* outputs, std::int64_t* dominant) {
  using Tile = LogitTile<T, 64>;
  using Product = typename Tile::Product;
  constexpr int slice = 64 * Product::pitch;
  static_assert(2 * slice <= 4 * Tile::shared_size);
  const int thread = static_cast<int>(threadIdx.x);
  // Neighbouring blocks share rows.
  const std::int64_t channel_tile = blockIdx.x % channel_tiles;
  const std::int64_t first_query = blockIdx.x / channel_tiles % query_tiles * 64;
  const std::int64_t q = blockIdx.x / channel_tiles / query_tiles;
  const std::int64_t h = q / group;
  const std::int64_t queries = stacked.queries.count();
  const HeadView<const T, MemorySpace::device> head = keys.head(h);
  const HeadView<const T, MemorySpace::device> of_values = values.head(h);
  KVEVICT_SHARED(float4, shared, [Tile::shared_size]);
  KVEVICT_SHARED(float4, turned, [2 * slice / 4]);
  KVEVICT_SHARED(const T*, key_rows, [Product::rows]);
  KVEVICT_SHARED(const T*, value_rows, [Product::rows]);
  KVEVICT_SHARED(const void*, query_rows, [64]);
  KVEVICT_SHARED(QueryWeight, tile_weights, [64]);
  KVEVICT_SHARED(float, tile_factors, [64]);
  KVEVICT_SHARED(std::int64_t, tile_visible, [64]);
  float* scratch = reinterpret_cast<float*>(shared);
  float* b = reinterpret_cast<float*>(turned);
  Tile tile{head, &stacked, scratch, key_rows, query_rows, in_whole_pieces(head), false};
  tile.set_queries(q, first_query);
  std::int64_t visible = 0;
  if (thread < 64) {
    QueryWeight weight{0.0f, 0.0f, 0.0f, 0.0f};
    if (first_query + thread < queries) {
      const std::int64_t i = q * queries + first_query + thread;
      weight = weights[i];
      visible = stacked.visible_rows(h, first_query + thread, head.rows);
      if (channel_tile == 0) dominant[i] = -1;
    }
    tile_weights[thread] = weight;
    tile_factors[thread] = weight_of_exponential(weight);
    tile_visible[thread] = visible;
  }
  Product output;
  output.clear();
  for (std::int64_t first = 0; first < head.rows; first += Product::rows) {
    // Rows ascend in position: behind the last that any query sees there is none.
    if (__syncthreads_or(first < visible ? 1 : 0) == 0) break;
    const std::int64_t left = head.rows - first;
    const int count = static_cast<int>(left < Product::rows ? left : Product::rows);
    if (thread < Product::rows) value_rows[thread] = HeadRows<T>{of_values, first, count}(thread);
    Product product;
    tile.compute(product, first, count);
    __syncthreads();
    stage_channels<T>(value_rows, of_values, first, static_cast<int>(channel_tile) * 64, b);
    KVEVICT_UNROLL
    for (int j = 0; j < Product::column_count; ++j) {
      const int column = Product::column(j);
      const QueryWeight weight = tile_weights[column];
      const std::int64_t seen = tile_visible[column] - first;
      KVEVICT_UNROLL
      for (int i = 0; i < Product::row_count; ++i) {
        const int row = Product::row(i);
        float e = row < seen ? exp_nonpositive(product.sum[i][j] - weight.maximum) : 0.0f;
        if (e > weight.half_sum) {
          e = 0.0f;
          // One row in all, and one thread that has it.
          if (channel_tile == 0) dominant[q * queries + first_query + column] = first + row;
        }
        scratch[row / 32 * slice + column * Product::pitch + row % 32] = e * tile_factors[column];
      }
    }
    __syncthreads();
    output.add(scratch, b, 32);
    output.add(scratch + slice, b + slice, 32);
  }
  KVEVICT_UNROLL
  for (int i = 0; i < Product::row_count; ++i) {
    const std::int64_t query = first_query + Product::row(i);
    KVEVICT_UNROLL
    for (int j = 0; j < Product::column_count; ++j) {
      const std::int64_t channel = channel_tile * 64 + Product::column(j);
      if (query < queries && channel < of_values.dim) {
        outputs[(q * queries + query) * of_values.dim + channel] = output.sum[i][j];
      }
    }
  }
}

/// Puts the dominant rows into the outputs, as they are seen through the transforms (none: as they
/// are), and finds what changes when such a row leaves: losses[query_head][query]. A block for each
/// query. `seen` may be the storage of `outputs` without transforms.
template <class T>
__global__ void __launch_bounds__(128)
    drop_loss_dominant(RowsView<const T, MemorySpace::device> values,
                       MatrixBatchView<const float, MemorySpace::device> transforms,
                       std::int64_t group, std::int64_t queries, const QueryWeight* weights,
                       const std::int64_t* dominant, const float* outputs, float* seen,
                       std::int64_t channels, float* losses) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % warp_size;
  const std::int64_t i = blockIdx.x;
  const std::int64_t q = i / queries;
  const HeadView<const T, MemorySpace::device> head = values.head(q / group);
  const int dim = static_cast<int>(head.dim);
  const std::int64_t row = dominant[i];
  const float p = row >= 0 ? weights[i].inverse : 0.0f;
  SharedCarver carver;
  float* output = carver.take<float>(dim);
  float* difference = carver.take<float>(dim);
  for (int c = thread; c < dim; c += 128) {
    output[c] = outputs[i * dim + c];
    difference[c] = row >= 0 ? head.value(row, c) - output[c] : 0.0f;
  }
  __syncthreads();
  double squares = 0.0;
  if (transforms.empty()) {
    for (int c = thread; c < dim; c += 128) {
      seen[i * dim + c] = output[c] + p * difference[c];
      squares += static_cast<double>(difference[c]) * static_cast<double>(difference[c]);
    }
  } else {
    // A warp for each channel that comes out.
    for (int r = thread / warp_size; r < channels; r += 128 / warp_size) {
      float of_output = 0.0f;
      float of_difference = 0.0f;
      for (int c = lane; c < dim; c += warp_size) {
        const float factor = transforms(q, r, c);
        of_output += factor * output[c];
        of_difference += factor * difference[c];
      }
      of_output = reduce_lanes(of_output, Sum{});
      of_difference = reduce_lanes(of_difference, Sum{});
      if (lane != 0) continue;
      seen[i * channels + r] = of_output + p * of_difference;
      squares += static_cast<double>(of_difference) * static_cast<double>(of_difference);
    }
  }
  squares = reduce_block<128>(squares, Sum{});
  if (thread == 0) losses[i] = static_cast<float>(static_cast<double>(p) * sqrt(squares));
}

/// Writes channels [first, first + 32) of the rows as `matrix` shows them to `to`[row][pitch], by
/// all threads of a block of 128. `scratch` holds slices of 64 + 32 rows. Contains barriers, none
/// behind the writes.
template <class T>
__device__ void project_rows(const HeadRows<T>& rows,
                             const HeadView<const float, MemorySpace::device>& matrix, bool whole,
                             int first, float* scratch, float* to) {
  using Product = TileProduct<float, 32>;
  const int dim = static_cast<int>(rows.head.dim);
  const int outputs = static_cast<int>(matrix.rows) - first;
  float* b = scratch + Product::rows * Product::pitch;
  const bool whole_matrix = in_whole_pieces(matrix);
  Product product;
  product.clear();
  for (int k = 0; k < dim; k += Product::depth) {
    __syncthreads();
    stage_rows<Product::rows, T>(rows, rows.head.channel_stride, dim, whole, k, scratch,
                                 RowScales<T>{rows.head, rows.first});
    stage_rows<Product::columns, float>(HeadRows<float>{matrix, first, outputs},
                                        matrix.channel_stride, dim, whole_matrix, k, b);
    __syncthreads();
    product.add(scratch, b, dim - k);
  }
  KVEVICT_UNROLL
  for (int i = 0; i < Product::row_count; ++i) {
    KVEVICT_UNROLL
    for (int j = 0; j < Product::column_count; ++j) {
      to[Product::row(i) * Product::pitch + Product::column(j)] = product.sum[i][j];
    }
  }
}

}  // namespace kvevict::cuda::detail
