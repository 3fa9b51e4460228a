// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/softmax.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/attention_statistic.hpp"

namespace kvevict::cpu {

/// Queries whose logits over all rows of a head are held at once: up to 64, fewer for long heads,
/// so that the block stays near 4 MiB: smaller blocks pack the keys of long heads too often.
/// Depends on nothing but the head, as its scores must.
inline std::int64_t query_block(std::int64_t rows, std::int64_t queries) {
  const std::int64_t floats = std::int64_t{1} << 20;
  const std::int64_t fitting = floats / std::max<std::int64_t>(rows, 1);
  return std::max<std::int64_t>(1, std::min<std::int64_t>({64, queries, fitting}));
}

/// Adds one query's weights to the running statistic of its query head.
inline void accumulate(AttentionStatistic statistic, const Exponentials& all, const float* e,
                       std::int64_t n, double weight, float* out) {
  const float inverse = static_cast<float>(weight / all.sum);
  switch (statistic) {
    case AttentionStatistic::sum:
    case AttentionStatistic::mean:
      for (std::int64_t j = 0; j < n; ++j) out[j] += e[j] * inverse;
      break;
    case AttentionStatistic::root_mean_square:
      for (std::int64_t j = 0; j < n; ++j) out[j] += (e[j] * inverse) * (e[j] * inverse);
      break;
    case AttentionStatistic::maximum:
      for (std::int64_t j = 0; j < n; ++j) {
        const float p = e[j] * inverse;
        if (!(p <= out[j]) && !std::isnan(out[j])) out[j] = p;  // a NaN weight stays visible
      }
      break;
    case AttentionStatistic::mean_jacobian_diagonal:
      for (std::int64_t j = 0; j < n; ++j) {
        const float p = e[j] * inverse;
        out[j] += p * (1.0f - p);
      }
      // A weight above one half can come so near 1 that 1 - p loses its digits.
      if (const float largest = e[all.largest]; 2.0 * static_cast<double>(largest) > all.sum) {
        out[all.largest] -= largest * inverse * (1.0f - largest * inverse);
        out[all.largest] += jacobian_diagonal(all, largest);
      }
      break;
  }
}

inline void finish(AttentionStatistic statistic, std::int64_t queries, std::int64_t n, float* out) {
  const float weight = 1.0f / static_cast<float>(queries);
  ArrayMap<float> row(out, n);
  if (statistic == AttentionStatistic::mean ||
      statistic == AttentionStatistic::mean_jacobian_diagonal) {
    row *= weight;
  } else if (statistic == AttentionStatistic::root_mean_square) {
    // Not Eigen's vectorised square root, whose AVX-512 form differs from the scalar one at a row's
    // end.
    for (std::int64_t j = 0; j < n; ++j) out[j] = std::sqrt(out[j] * weight);
  }
}

template <class T>
void attention_statistic_impl(Resources& res, const RowsView<T>& keys, const Positions<>& positions,
                              const ProbeQueries<>& probes, std::int64_t group, float scale,
                              AttentionStatistic statistic, float decay, ScoreView<> out) {
  const QueriesView<>& queries = probes.queries;
  const std::int64_t dim = keys.dim();
  const std::int64_t tile = tile_size(dim);
  // The queries of a group lie under each other, so that a block of keys is converted and packed
  // once for all.
  const std::int64_t stacked = group * queries.count();
  std::int64_t logits_size = 0;
  for (std::int64_t h = 0; h < keys.heads(); ++h) {
    logits_size = std::max(logits_size, query_block(keys.rows(h), stacked) * keys.rows(h));
  }
  const std::int64_t query_size = std::min<std::int64_t>(64, stacked) * dim;
  WorkspaceScope scope(res.workspace());
  float* tiles = scope.carve<float>("attention_statistic.tiles", res.threads() * tile);
  float* logits = scope.carve<float>("attention_statistic.logits", res.threads() * logits_size);
  float* query_rows = scope.carve<float>("attention_statistic.queries", res.threads() * query_size);
  if (res.workspace().counting()) return;
  res.parallel_for(keys.heads(), [&](std::int64_t h, int worker) {
    const HeadView<T> head = keys.head(h);
    const std::int64_t rows = head.rows;
    if (rows == 0) return;
    const auto row_positions = positions.row(h, keys.layout());
    float* weights = logits + worker * logits_size;
    float* query_tile = query_rows + worker * query_size;
    for (std::int64_t q = h * group; q < (h + 1) * group; ++q) std::fill_n(out.head(q), rows, 0.0f);
    const auto query_of = [&](std::int64_t i) { return i % queries.count(); };
    const auto head_of = [&](std::int64_t i) { return h * group + i / queries.count(); };
    const auto visible_rows = [&](std::int64_t i) {
      if (probes.mask == ProbeMask::none) return rows;
      return row_positions.count_below(std::int64_t{probes.positions.at(h, query_of(i))} + 1, rows);
    };
    const std::int64_t block = query_block(rows, stacked);
    for (std::int64_t first = 0; first < stacked; first += block) {
      const std::int64_t count = std::min(block, stacked - first);
      // No query of the block sees beyond the rows of this view.
      HeadView<T> visible_head = head;
      visible_head.rows = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        load_queries(queries, head_of(first + i), query_of(first + i), 1, query_tile + i * dim);
        visible_head.rows = std::max(visible_head.rows, visible_rows(first + i));
      }
      auto scaled_queries = map_matrix(query_tile, count, dim);
      scaled_queries *= scale;
      for_each_tile(visible_head, tiles + worker * tile,
                    [&](std::int64_t start, const auto& key_block) {
                      map_matrix(weights + start, count, key_block.rows(), rows).noalias() =
                          scaled_queries * key_block.transpose();
                    });
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t visible = visible_rows(first + i);
        float* row = weights + i * rows;
        const Exponentials all = exponentials(row, visible);
        if (all.sum == 0.0) continue;  // it sees nothing
        const std::int64_t age = queries.count() - 1 - query_of(first + i);
        const double weight = statistic == AttentionStatistic::sum && decay < 1.0f
                                  ? std::pow(static_cast<double>(decay), static_cast<double>(age))
                                  : 1.0;
        accumulate(statistic, all, row, visible, weight, out.head(head_of(first + i)));
      }
    }
    for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
      finish(statistic, queries.count(), rows, out.head(q));
    }
  });
}

}  // namespace kvevict::cpu
