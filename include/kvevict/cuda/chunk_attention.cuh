// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/attention_rows.cuh"
#include "kvevict/cuda/search.cuh"
#include "kvevict/ops/chunk_attention.hpp"

namespace kvevict::cuda {

/// What one query sees of its head, rows [begin, end), and what turns their logits into weights.
/// Both ascend with the queries, also where they are equal: a query without a chunk.
struct ChunkQuery {
  std::int64_t begin;
  std::int64_t end;
  float maximum;
  float inverse;
};

namespace detail {

/// Arguments of the kernels. `stacked` has the query heads one by one, a group of 1.
struct ChunkAttention {
  StackedQueries stacked;
  std::int64_t group;
  std::int64_t chunk;
  RowRange range;
  ChunkPadding padding;
  ChunkQuery* queries;  ///< [query_head][query]
  std::int64_t count;   ///< queries of each head

  /// Rows that padding adds to a chunk of so many.
  __device__ double missing(std::int64_t rows) const {
    return padding == ChunkPadding::zeros && rows < chunk ? static_cast<double>(chunk - rows) : 0.0;
  }
};

/// A thread for each query of each query head.
static __global__ void __launch_bounds__(128)
    find_chunks(RowLayout<MemorySpace::device> layout, Positions<MemorySpace::device> positions,
                QueryPositions<MemorySpace::device> query_positions, ChunkAttention task) {
  const std::int64_t i = blockIdx.x * std::int64_t{128} + threadIdx.x;
  const std::int64_t head = i / task.count / task.group;
  if (head >= layout.heads()) return;
  const std::int64_t rows = layout.rows(head);
  const std::int64_t bound = std::int64_t{query_positions.at(head, i % task.count)} + 1;
  const std::int64_t reached = positions.row(head, layout).count_below(bound, rows);
  const std::int64_t first = task.range.begin(rows);
  const std::int64_t end = task.range.end(rows);
  const std::int64_t chunk = task.chunk;
  ChunkQuery query{0, 0, 0.0f, 0.0f};
  if (reached > end && end < rows) {
    query.begin = query.end = rows;  // behind the range
  } else if (reached > first && first < end) {
    query.begin = first + (reached - 1 - first) / chunk * chunk;
    query.end = query.begin + chunk < end ? query.begin + chunk : end;
  }
  task.queries[i] = query;
}

/// One block for up to `Columns` queries of a query head, which run through the rows that any of
/// them sees. Flops as in `attention_states`.
template <class T, int Columns>
__global__ void __launch_bounds__(128, resident_blocks<T>(Columns == 64 ? 4 : 3))
    chunk_states(RowsView<const T, MemorySpace::device> keys, ChunkAttention task,
                 std::int64_t column_tiles) {
  using Tile = LogitTile<T, Columns>;
  using Product = typename Tile::Product;
  constexpr FastExponential exponential;
  constexpr int parts = 128 / Columns;  // threads that share a column
  constexpr int part_rows = Product::rows / parts;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first_query = blockIdx.x % column_tiles * Columns;
  const std::int64_t q = blockIdx.x / column_tiles;
  const auto head = keys.head(q / task.group);
  KVEVICT_SHARED(float4, shared, [Tile::shared_size]);
  KVEVICT_SHARED(const T*, key_rows, [Product::rows]);
  KVEVICT_SHARED(const void*, query_rows, [Columns]);
  KVEVICT_SHARED(SoftmaxState, of_part, [128]);
  float* logits = reinterpret_cast<float*>(shared);
  Tile tile{head, &task.stacked, logits, key_rows, query_rows, in_whole_pieces(head), false};
  tile.set_queries(q, first_query);

  const int column = thread % Columns;
  const int part = thread / Columns;
  const bool present = first_query + column < task.count;
  ChunkQuery own{0, 0, 0.0f, 0.0f};
  if (present) own = task.queries[q * task.count + first_query + column];
  // Positions ascend: the chunks of these queries lie between those of the first and the last one.
  const std::int64_t last = first_query + Columns < task.count ? first_query + Columns : task.count;
  std::int64_t begin = head.rows;
  std::int64_t end = 0;
  for (std::int64_t i = first_query; i < last; ++i) {
    const ChunkQuery& query = task.queries[q * task.count + i];
    if (query.begin == query.end) continue;
    begin = query.begin < begin ? query.begin : begin;
    end = query.end;
  }
  SoftmaxState state = SoftmaxState::none();
  for (std::int64_t first = begin; first < end; first += Product::rows) {
    const std::int64_t left = end - first;
    Product product;
    tile.compute(product, first, static_cast<int>(left < Product::rows ? left : Product::rows));
    __syncthreads();
    tile.store(product);
    __syncthreads();
    const std::int64_t from = own.begin - first;
    const std::int64_t to = own.end - first;
    const float* of_column = logits + part * part_rows * Tile::pitch + column;
    state.add<part_rows>(exponential, [&](int r) {
      const int row = part * part_rows + r;
      return row >= from && row < to ? of_column[r * Tile::pitch] : -float_infinity;
    });
  }
  of_part[thread] = state;
  __syncthreads();
  if (part != 0 || !present) return;
  for (int p = 1; p < parts; ++p) state.merge(exponential, of_part[p * Columns + column]);
  double sum = state.sum();
  if (sum > 0.0) {
    sum += task.missing(own.end - own.begin) * exp(-static_cast<double>(state.maximum));
  }
  if (state.broken()) {
    own.maximum = float_nan;
  } else if (sum > 0.0) {
    own.maximum = state.maximum;
    own.inverse = static_cast<float>(1.0 / sum);
  }
  task.queries[q * task.count + first_query + column] = own;
}

/// One block for 64 rows of a query head and the queries of their chunks: computes their logits
/// once more and adds up the weights of each row, query after query.
template <class T, int Columns>
__global__ void __launch_bounds__(128, resident_blocks<T>(Columns == 64 ? 4 : 3))
    chunk_rows(RowsView<const T, MemorySpace::device> keys, ChunkAttention task,
               std::int64_t row_tiles, ScoreView<MemorySpace::device> out) {
  using Tile = LogitTile<T, Columns>;
  using Product = typename Tile::Product;
  const int thread = static_cast<int>(threadIdx.x);
  const HeadTile rows = head_tile(blockIdx.x, row_tiles, Product::rows, out.layout);
  if (rows.count == 0) return;
  const std::int64_t q = rows.head;
  const auto head = keys.head(q / task.group);
  const int count = static_cast<int>(rows.count);
  KVEVICT_SHARED(float4, shared, [Tile::shared_size]);
  KVEVICT_SHARED(const T*, key_rows, [Product::rows]);
  KVEVICT_SHARED(const void*, query_rows, [Columns]);
  KVEVICT_SHARED(ChunkQuery, columns, [Columns]);
  float* terms = reinterpret_cast<float*>(shared);
  Tile tile{head, &task.stacked, terms, key_rows, query_rows, in_whole_pieces(head), false};
  const ChunkQuery* queries = task.queries + q * task.count;
  const std::int64_t first_query = partition_point<128>(
      0, task.count, [&](std::int64_t i) { return queries[i].end <= rows.first; });
  float total = 0.0f;
  if (thread < count) {
    const std::int64_t begin = task.range.begin(head.rows);
    const std::int64_t end = task.range.end(head.rows);
    const std::int64_t row = rows.first + thread;
    const std::int64_t last = (end - begin) % task.chunk;  // rows of a short chunk
    if (row >= end - last && row < end) {
      total = static_cast<float>(task.missing(last) / static_cast<double>(task.chunk));
    }
  }
  for (std::int64_t first = first_query; first < task.count; first += Columns) {
    tile.set_queries(q, first);
    ChunkQuery own{0, 0, 0.0f, 0.0f};
    if (thread < Columns && first + thread < task.count) own = queries[first + thread];
    // Relative to the rows of this block.
    own.begin -= rows.first;
    own.end -= rows.first;
    if (thread < Columns) columns[thread] = own;
    const bool seen = thread < Columns && own.begin < count && own.end > 0;
    if (__syncthreads_or(seen ? 1 : 0) == 0) break;
    Product product;
    tile.compute(product, rows.first, count);
    __syncthreads();
    KVEVICT_UNROLL
    for (int j = 0; j < Product::column_count; ++j) {
      const int column = Product::column(j);
      const ChunkQuery query = columns[column];
      KVEVICT_UNROLL
      for (int i = 0; i < Product::row_count; ++i) {
        const int row = Product::row(i);
        const bool sees = row >= query.begin && row < query.end;
        terms[row * Tile::pitch + column] =
            sees ? exp_nonpositive(product.sum[i][j] - query.maximum) * query.inverse : 0.0f;
      }
    }
    __syncthreads();
    const std::int64_t left = task.count - first;
    for (int c = 0; thread < count && c < Columns && c < left; ++c) {
      total += terms[thread * Tile::pitch + c];
    }
  }
  if (thread < count) out.head(q)[rows.first + thread] = total;
}

}  // namespace detail

/// Two passes of tile products, as attention_statistic: 4 chunk dim flops and 2 chunk exponentials
/// for each query, more where a tile of queries or rows spans several chunks. Three launches, none
/// of which waits. Workspace: 24 bytes for each query of each query head.
template <class T>
void chunk_attention_impl(Resources& res, const RowsView<T, MemorySpace::device>& keys,
                          const Positions<MemorySpace::device>& positions,
                          const QueryWindow<MemorySpace::device>& window, std::int64_t group,
                          const RowRange& range, std::int64_t chunk, ChunkPadding padding,
                          float scale, ScoreView<MemorySpace::device> out) {
  using Element = std::remove_const_t<T>;
  const std::int64_t count = window.queries.count();
  const std::int64_t query_heads = keys.heads() * group;
  WorkspaceScope scope(res.workspace());
  detail::ChunkAttention task{};
  task.queries = scope.carve<ChunkQuery>("chunk_attention.queries", query_heads * count);
  if (res.workspace().counting()) return;
  task.stacked.queries = window.queries;
  task.stacked.scale = scale;
  task.group = group;
  task.chunk = chunk;
  task.range = range;
  task.padding = padding;
  task.count = count;
  launch(res, "find_chunks", detail::find_chunks, tiles_of(query_heads * count, 128), 128, 0,
         keys.layout(), positions, window.positions, task);
  const RowsView<const Element, MemorySpace::device> rows = keys;
  with_query_columns(count, [&](auto columns) {
    constexpr int size = decltype(columns)::value;
    const std::int64_t column_tiles = tiles_of(count, size);
    launch(res, "chunk_states", detail::chunk_states<Element, size>, query_heads * column_tiles,
           128, 0, rows, task, column_tiles);
    const std::int64_t row_tiles = tiles_of(keys.layout().longest(), 64);
    launch(res, "chunk_rows", detail::chunk_rows<Element, size>, query_heads * row_tiles, 128, 0,
           rows, task, row_tiles, out);
  });
}

}  // namespace kvevict::cuda
