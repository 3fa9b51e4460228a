// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/query_tile.cuh"
#include "kvevict/cuda/softmax_state.cuh"

namespace kvevict::cuda {

/// What turns the logits of one query into attention weights: p = exp(z - maximum) inverse. A query
/// without logits has inverse 0, one whose softmax has no value the maximum NaN.
struct QueryWeight {
  float maximum;
  float inverse;   ///< the weight of the query over the sum of its exponentials
  float half_sum;  ///< an exponential above it is the only largest
  float diagonal;  ///< p (1 - p) of that one
};

namespace detail {

/// How many rows of each head each query sees: visible[head][query].
static __global__ void __launch_bounds__(128)
    count_visible_rows(RowLayout<MemorySpace::device> layout,
                       Positions<MemorySpace::device> positions,
                       QueryPositions<MemorySpace::device> query_positions, std::int64_t queries,
                       std::int64_t* visible) {
  const std::int64_t i = blockIdx.x * std::int64_t{128} + threadIdx.x;
  const std::int64_t head = i / queries;
  if (head >= layout.heads()) return;
  const std::int64_t bound = std::int64_t{query_positions.at(head, i % queries)} + 1;
  visible[i] = positions.row(head, layout).count_below(bound, layout.rows(head));
}

/// states[head][split][query]: one block for a split of a head's rows and up to `Columns` of its
/// queries. 2 dim flops and an exponential for each logit; `Columns` floats of queries from the L2
/// cache for each channel of 64 keys: bound by fp32 arithmetic, for up to 16 queries by the
/// bandwidth that the keys need.
template <class T, int Columns>
__global__ void __launch_bounds__(128, resident_blocks<T>(Columns == 64 ? 4 : 3))
    attention_states(RowsView<const T, MemorySpace::device> keys, StackedQueries stacked,
                     std::int64_t column_tiles, SoftmaxState* states) {
  using Tile = LogitTile<T, Columns>;
  using Product = typename Tile::Product;
  constexpr FastExponential exponential;
  constexpr int parts = 128 / Columns;  // threads that share a column
  constexpr int part_rows = Product::rows / parts;
  const int thread = static_cast<int>(threadIdx.x);
  // Neighbouring blocks share the keys, not the queries.
  const std::int64_t first_query = blockIdx.x % column_tiles * Columns;
  const std::int64_t split = blockIdx.x / column_tiles % stacked.max_splits;
  const std::int64_t h = blockIdx.x / column_tiles / stacked.max_splits;
  const auto head = keys.head(h);
  const std::int64_t rows = head.rows;
  const std::int64_t length = StackedQueries::Splits::length(rows);
  const std::int64_t begin = split * length;
  if (begin >= rows) return;
  const std::int64_t end = begin + length < rows ? begin + length : rows;
  KVEVICT_SHARED(float4, shared, [Tile::shared_size]);
  KVEVICT_SHARED(const T*, key_rows, [Product::rows]);
  KVEVICT_SHARED(const void*, query_rows, [Columns]);
  KVEVICT_SHARED(SoftmaxState, of_part, [128]);
  float* logits = reinterpret_cast<float*>(shared);
  Tile tile{head, &stacked, logits, key_rows, query_rows, in_whole_pieces(head), false};
  tile.set_queries(h, first_query);

  const int column = thread % Columns;
  const int part = thread / Columns;
  const bool present = first_query + column < stacked.count();
  const std::int64_t visible = present ? stacked.visible_rows(h, first_query + column, rows) : 0;
  SoftmaxState state = SoftmaxState::none();
  for (std::int64_t first = begin; first < end; first += Product::rows) {
    // Rows ascend in position: behind the last that any query sees there is none.
    if (__syncthreads_or(first < visible ? 1 : 0) == 0) break;
    const std::int64_t left = end - first;
    const int count = static_cast<int>(left < Product::rows ? left : Product::rows);
    Product product;
    tile.compute(product, first, count);
    __syncthreads();
    tile.store(product);
    __syncthreads();
    const std::int64_t seen = (visible < end ? visible : end) - first;
    const float* own = logits + part * part_rows * Tile::pitch + column;
    state.add<part_rows>(exponential, [&](int r) {
      return part * part_rows + r < seen ? own[r * Tile::pitch] : -float_infinity;
    });
  }
  of_part[thread] = state;
  __syncthreads();
  if (part != 0 || !present) return;
  for (int p = 1; p < parts; ++p) state.merge(exponential, of_part[p * Columns + column]);
  states[(h * stacked.max_splits + split) * stacked.count() + first_query + column] = state;
}

/// Merges the states of the splits of each query, weights[head][query]. A thread for each.
static __global__ void __launch_bounds__(128)
    finish_query_weights(RowLayout<MemorySpace::device> layout, StackedQueries stacked, float decay,
                         const SoftmaxState* states, QueryWeight* weights) {
  constexpr FastExponential exponential;
  const std::int64_t i = blockIdx.x * std::int64_t{128} + threadIdx.x;
  const std::int64_t count = stacked.count();
  const std::int64_t h = i / count;
  if (h >= layout.heads()) return;
  const std::int64_t rows = layout.rows(h);
  const std::int64_t splits = StackedQueries::Splits::count(rows);
  SoftmaxState state = SoftmaxState::none();
  for (std::int64_t split = 0; split < splits; ++split) {
    state.merge(exponential, states[(h * stacked.max_splits + split) * count + i % count]);
  }
  QueryWeight weight{0.0f, 0.0f, 0.0f, 0.0f};
  const double sum = state.sum();
  if (state.broken()) {
    weight.maximum = float_nan;
  } else if (sum > 0.0) {
    const std::int64_t queries = stacked.queries.count();
    const std::int64_t age = queries - 1 - i % count % queries;
    const double factor =
        decay < 1.0f ? pow(static_cast<double>(decay), static_cast<double>(age)) : 1.0;
    weight.maximum = state.maximum;
    weight.inverse = static_cast<float>(factor / sum);
    weight.half_sum = static_cast<float>(0.5 * sum);
    weight.diagonal = static_cast<float>(state.others / (sum * sum));
  }
  weights[i] = weight;
}

}  // namespace detail

/// Stacked probes and the weight of each, in workspace that is carved from `scope`: 24 bytes for
/// each query of each head and 16 for each of its splits.
struct WeightedQueries {
  StackedQueries stacked;
  std::int64_t* visible;
  SoftmaxState* states;
  QueryWeight* weights;  ///< [head][stacked query]

  template <class T>
  WeightedQueries(WorkspaceScope& scope, const RowsView<T, MemorySpace::device>& keys,
                  const ProbeQueries<MemorySpace::device>& probes, std::int64_t group,
                  float scale) {
    const std::int64_t heads = keys.heads();
    const std::int64_t queries = heads * group * probes.queries.count();
    stacked.queries = probes.queries;
    stacked.group = group;
    stacked.scale = scale;
    stacked.max_splits =
        std::max<std::int64_t>(StackedQueries::Splits::most(keys.layout().longest()), 1);
    visible = scope.carve<std::int64_t>("attention.visible", probes.mask == ProbeMask::by_position
                                                                 ? heads * probes.queries.count()
                                                                 : 0);
    states = scope.carve<SoftmaxState>("attention.states", queries * stacked.max_splits);
    weights = scope.carve<QueryWeight>("attention.weights", queries);
  }

  /// Enqueues the weights: two launches, and one for a mask.
  template <class T>
  void enqueue(Resources& res, const RowsView<const T, MemorySpace::device>& keys,
               const Positions<MemorySpace::device>& positions,
               const ProbeQueries<MemorySpace::device>& probes, float decay) {
    const std::int64_t heads = keys.heads();
    if (probes.mask == ProbeMask::by_position) {
      stacked.visible = visible;
      launch(res, "count_visible_rows", detail::count_visible_rows,
             tiles_of(heads * probes.queries.count(), 128), 128, 0, keys.layout(), positions,
             probes.positions, probes.queries.count(), visible);
    }
    with_query_columns(stacked.count(), [&](auto columns) {
      constexpr int size = decltype(columns)::value;
      const std::int64_t column_tiles = tiles_of(stacked.count(), size);
      launch(res, "attention_states", detail::attention_states<T, size>,
             heads * stacked.max_splits * column_tiles, 128, 0, keys, stacked, column_tiles,
             states);
    });
    launch(res, "finish_query_weights", detail::finish_query_weights,
           tiles_of(heads * stacked.count(), 128), 128, 0, keys.layout(), stacked, decay,
           static_cast<const SoftmaxState*>(states), weights);
  }
};

}  // namespace kvevict::cuda
