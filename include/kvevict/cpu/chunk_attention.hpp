// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/attention_blocks.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/softmax.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/chunk_attention.hpp"

namespace kvevict::cpu {

/// Number of the first `count` queries of a KV head at positions below `bound`.
inline std::int64_t queries_below(const QueryPositions<>& positions, std::int64_t head,
                                  std::int64_t count, std::int64_t bound) {
  std::int64_t low = 0;
  std::int64_t high = count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (positions.at(head, middle) < bound) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class T>
void chunk_attention_impl(Resources& res, const RowsView<T>& keys, const Positions<>& positions,
                          const QueryWindow<>& window, std::int64_t group, const RowRange& range,
                          std::int64_t chunk, ChunkPadding padding, float scale, ScoreView<> out) {
  const QueriesView<>& queries = window.queries;
  const std::int64_t dim = keys.dim();
  const std::int64_t tile = tile_size(dim);
  const std::int64_t stacked = group * queries.count();
  std::int64_t logits_size = 0;
  for (std::int64_t h = 0; h < keys.heads(); ++h) {
    const std::int64_t count = range.count(keys.rows(h));
    for (const std::int64_t rows : {std::min(chunk, count), count % chunk}) {
      logits_size = std::max(logits_size, query_block(rows, stacked) * rows);
    }
  }
  const std::int64_t query_size = std::min<std::int64_t>(64, stacked) * dim;
  WorkspaceScope scope(res.workspace());
  float* tiles = scope.carve<float>("chunk_attention.tiles", res.threads() * tile);
  float* logits = scope.carve<float>("chunk_attention.logits", res.threads() * logits_size);
  float* query_rows = scope.carve<float>("chunk_attention.queries", res.threads() * query_size);
  if (res.workspace().counting()) return;
  res.parallel_for(keys.heads(), [&](std::int64_t h, int worker) {
    const HeadView<T> head = keys.head(h);
    const auto row_positions = positions.row(h, keys.layout());
    const std::int64_t end = range.end(head.rows);
    float* weights = logits + worker * logits_size;
    float* query_tile = query_rows + worker * query_size;
    for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
      std::fill_n(out.head(q), head.rows, 0.0f);
    }
    const auto first_query_at = [&](std::int64_t row) {
      return row < head.rows ? queries_below(window.positions, h, queries.count(),
                                             std::int64_t{row_positions[row]})
                             : queries.count();
    };
    for (std::int64_t first = range.begin(head.rows); first < end; first += chunk) {
      const std::int64_t rows = std::min(chunk, end - first);
      const double missing =
          padding == ChunkPadding::zeros && rows < chunk ? static_cast<double>(chunk - rows) : 0.0;
      const auto from_padding = static_cast<float>(missing / static_cast<double>(chunk));
      for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
        std::fill_n(out.head(q) + first, rows, from_padding);
      }
      const std::int64_t first_query = first_query_at(first);
      const std::int64_t own = first_query_at(first + rows) - first_query;
      // The group's queries of this chunk lie under each other.
      const std::int64_t block = query_block(rows, stacked);
      for (std::int64_t start = 0; start < group * own; start += block) {
        const std::int64_t count = std::min(block, group * own - start);
        for (std::int64_t i = 0; i < count; ++i) {
          load_queries(queries, h * group + (start + i) / own, first_query + (start + i) % own, 1,
                       query_tile + i * dim);
        }
        auto scaled_queries = map_matrix(query_tile, count, dim);
        scaled_queries *= scale;
        for_each_tile(head, first, first + rows, tiles + worker * tile,
                      [&](std::int64_t at, const auto& key_block) {
                        map_matrix(weights + at, count, key_block.rows(), rows).noalias() =
                            scaled_queries * key_block.transpose();
                      });
        for (std::int64_t i = 0; i < count; ++i) {
          float* row = weights + i * rows;
          Exponentials all = exponentials(row, rows);
          if (missing > 0.0) all.sum += missing * std::exp(-static_cast<double>(all.maximum));
          if (all.sum == 0.0) continue;  // logits of -infinity only
          const float inverse = static_cast<float>(1.0 / all.sum);
          float* sums = out.head(h * group + (start + i) / own) + first;
          for (std::int64_t j = 0; j < rows; ++j) sums[j] += row[j] * inverse;
        }
      }
    }
  });
}

}  // namespace kvevict::cpu
