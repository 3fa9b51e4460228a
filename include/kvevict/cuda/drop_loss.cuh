// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/scores.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/attention_states.cuh"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/probe_outputs.cuh"
#include "kvevict/cuda/query_tile.cuh"
#include "kvevict/cuda/row_forms.cuh"
#include "kvevict/math/exponential.hpp"
#include "kvevict/ops/drop_loss.hpp"

namespace kvevict::cuda {

namespace detail {

/// odds[i][j] = p / (1 - p) of this thread's logits; -1 for the row with more than half of a
/// query's weight, 0 for rows that it does not see.
template <class Product>
__device__ void odds_of_logits(const QueryWeight* weights, const int* visible, Product& product) {
  KVEVICT_UNROLL
  for (int j = 0; j < Product::column_count; ++j) {
    const int column = Product::column(j);
    const QueryWeight weight = weights[column];
    const int seen = visible[column];
    KVEVICT_UNROLL
    for (int i = 0; i < Product::row_count; ++i) {
      const float e = exp_nonpositive(product.sum[i][j] - weight.maximum);
      const float p = e * weight.inverse;
      const float odds = e > weight.half_sum ? -1.0f : p / (1.0f - p);
      product.sum[i][j] = Product::row(i) < seen ? odds : 0.0f;
    }
  }
}

/// One block for 64 rows of a head and all probes of its group: logits once more, then the squared
/// distances of the rows' values from the probes' outputs, which never leave the registers. 2 dim
/// flops of keys and 3 of values for each pair; projected values are formed once for each 64
/// probes, 2 dim^2 for each row.
template <class T, bool Projected>
__global__ void __launch_bounds__(128, 2)
    drop_loss_rows(RowsView<const T, MemorySpace::device> keys,
                   RowsView<const T, MemorySpace::device> values,
                   MatrixBatchView<const float, MemorySpace::device> transforms,
                   StackedQueries stacked, std::int64_t row_tiles, ProbeOutputs outputs,
                   ScoreView<MemorySpace::device> out) {
  using Tile = LogitTile<T, 64>;
  using Product = typename Tile::Product;
  constexpr int slice = Product::rows * Product::pitch;
  const int thread = static_cast<int>(threadIdx.x);
  const HeadTile rows = head_tile(blockIdx.x, row_tiles, Product::rows, keys.layout());
  if (rows.count == 0) return;
  const std::int64_t h = rows.head;
  const int count = static_cast<int>(rows.count);
  const HeadView<const T, MemorySpace::device> head = keys.head(h);
  const HeadView<const T, MemorySpace::device> of_values = values.head(h);
  KVEVICT_SHARED(float4, shared, [Tile::shared_size]);
  KVEVICT_SHARED(float4, projected, [Projected ? 2 * slice / 4 : 1]);
  KVEVICT_SHARED(const T*, key_rows, [Product::rows]);
  KVEVICT_SHARED(const void*, query_rows, [64]);
  KVEVICT_SHARED(QueryWeight, tile_weights, [64]);
  KVEVICT_SHARED(int, tile_visible, [64]);
  KVEVICT_SHARED(float, tile_losses, [64]);
  KVEVICT_SHARED(double, sums, [sum_columns_size]);
  float* scratch = reinterpret_cast<float*>(shared);
  float* a = Projected ? reinterpret_cast<float*>(projected) : scratch;
  float* b = a + slice;
  Tile tile{head, &stacked, scratch, key_rows, query_rows, in_whole_pieces(head), false};
  const bool whole_values = in_whole_pieces(of_values);
  const HeadRows<T> value_rows{of_values, rows.first, count};
  const int dim = static_cast<int>(of_values.dim);
  const int channels = static_cast<int>(outputs.dim);
  const bool whole_outputs = channels % 4 == 0;
  double of_row[Product::row_count] = {};

  for (std::int64_t tiles = tiles_of(outputs.queries, 64), t = 0; t < outputs.group * tiles; ++t) {
    const std::int64_t q = h * outputs.group + t / tiles;
    const std::int64_t first = t % tiles * 64;
    tile.set_queries(q, first);
    if (thread < 64) {
      const std::int64_t i = q * outputs.queries + first + thread;
      int seen = 0;
      if (first + thread < outputs.queries) {
        const std::int64_t visible =
            stacked.visible_rows(h, first + thread, head.rows) - rows.first;
        seen = static_cast<int>(visible < 0 ? 0 : (visible < count ? visible : count));
        tile_weights[thread] = outputs.weights[i];
        tile_losses[thread] = outputs.losses[i];
      }
      tile_visible[thread] = seen;
      if (seen == 0) {
        tile_weights[thread] = {0.0f, 0.0f, 0.0f, 0.0f};
        tile_losses[thread] = 0.0f;
      }
    }
    Product odds;
    tile.compute(odds, rows.first, count);
    odds_of_logits(tile_weights, tile_visible, odds);
    Product distance;
    distance.clear();
    for (int k = 0; k < channels; k += Product::depth) {
      __syncthreads();
      if constexpr (Projected) {
        project_rows<T>(value_rows, matrix_rows(transforms, q), whole_values, k, scratch, a);
      } else {
        stage_rows<Product::rows, T>(value_rows, of_values.channel_stride, dim, whole_values, k, a,
                                     RowScales<T>{of_values, rows.first});
      }
      stage_rows<64, float>(
          [&](int c) {
            return first + c < outputs.queries
                       ? outputs.seen + (q * outputs.queries + first + c) * outputs.dim
                       : nullptr;
          },
          1, channels, whole_outputs, k, b);
      __syncthreads();
      distance.add_squared_differences(a, b, channels - k);
    }
    KVEVICT_UNROLL
    for (int i = 0; i < Product::row_count; ++i) {
      float changes[Product::column_count];
      KVEVICT_UNROLL
      for (int j = 0; j < Product::column_count; ++j) {
        const float o = odds.sum[i][j];
        // No weight, no change, also where the distance has left fp32.
        changes[j] = o == 0.0f    ? 0.0f
                     : o == -1.0f ? tile_losses[Product::column(j)]
                                  : o * sqrtf(distance.sum[i][j]);
      }
      of_row[i] += squares_of_products(changes);
    }
  }
  const double total = sum_columns(of_row, sums);
  if (thread < count) {
    const auto probes = static_cast<double>(outputs.group * outputs.queries);
    out.head(h)[rows.first + thread] = static_cast<float>(sqrt(total / probes));
  }
}

}  // namespace detail

/// Three passes over the keys and two over the values: the softmax of each probe, its output, and
/// the change that each row makes. 2 n N (3 dim of keys + 2.5 dim of values) flops and 3 n N
/// exponentials for each query head. Five launches, none of which waits. Workspace for each query
/// of each head: 36 bytes, 16 for each 1024 rows (at most 1 KiB), and 4 for each channel of a value
/// (and of a projected one).
template <class T>
void drop_loss_impl(Resources& res, const RowsView<T, MemorySpace::device>& keys,
                    const RowsView<T, MemorySpace::device>& values,
                    const Positions<MemorySpace::device>& positions,
                    const ProbeQueries<MemorySpace::device>& probes, std::int64_t group,
                    float scale,
                    const MatrixBatchView<const float, MemorySpace::device>& transforms,
                    ScoreView<MemorySpace::device> out) {
  using Element = std::remove_const_t<T>;
  WorkspaceScope scope(res.workspace());
  WeightedQueries queries(scope, keys, probes, group, scale);
  const bool projected = !transforms.empty();
  const std::int64_t count = keys.heads() * queries.stacked.count();
  auto* dominant = scope.carve<std::int64_t>("drop_loss.dominant", count);
  auto* losses = scope.carve<float>("drop_loss.losses", count);
  auto* outputs = scope.carve<float>("drop_loss.outputs", count * values.dim());
  auto* seen =
      projected ? scope.carve<float>("drop_loss.projected", count * transforms.shape[1]) : outputs;
  if (res.workspace().counting()) return;
  const RowsView<const Element, MemorySpace::device> key_rows = keys;
  const RowsView<const Element, MemorySpace::device> value_rows = values;
  queries.enqueue(res, key_rows, positions, probes, 1.0f);
  StackedQueries one_head = queries.stacked;
  one_head.group = 1;
  detail::ProbeOutputs probe_outputs{};
  probe_outputs.weights = queries.weights;
  probe_outputs.group = group;
  probe_outputs.queries = probes.queries.count();
  probe_outputs.dim = projected ? transforms.shape[1] : values.dim();
  probe_outputs.seen = seen;
  probe_outputs.losses = losses;
  const std::int64_t query_tiles = tiles_of(probe_outputs.queries, 64);
  const std::int64_t channel_tiles = tiles_of(values.dim(), 64);
  launch(res, "drop_loss_outputs", detail::drop_loss_outputs<Element>,
         keys.heads() * group * query_tiles * channel_tiles, 128, 0, key_rows, value_rows, one_head,
         group, query_tiles, channel_tiles, static_cast<const QueryWeight*>(queries.weights),
         outputs, dominant);
  launch(res, "drop_loss_dominant", detail::drop_loss_dominant<Element>, count, 128,
         2 * shared_bytes<float>(values.dim()), value_rows, transforms, group,
         probe_outputs.queries, static_cast<const QueryWeight*>(queries.weights),
         static_cast<const std::int64_t*>(dominant), static_cast<const float*>(outputs), seen,
         probe_outputs.dim, losses);
  const std::int64_t row_tiles = tiles_of(keys.layout().longest(), 64);
  const auto rows =
      projected ? detail::drop_loss_rows<Element, true> : detail::drop_loss_rows<Element, false>;
  launch(res, "drop_loss_rows", rows, keys.heads() * row_tiles, 128, 0, key_rows, value_rows,
         transforms, one_head, row_tiles, probe_outputs, out);
}

}  // namespace kvevict::cuda
