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
/// so that the block stays near 4 MiB.
inline std::int64_t query_block(std::int64_t longest, std::int64_t queries) {
  const std::int64_t floats = std::int64_t{1} << 20;
  const std::int64_t fitting = floats / std::max<std::int64_t>(longest, 1);
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
      // The largest weight alone can come so near 1 that 1 - p loses its digits.
      out[all.largest] -= e[all.largest] * inverse * (1.0f - e[all.largest] * inverse);
      out[all.largest] += jacobian_diagonal(all, all.largest, e[all.largest]);
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
  const std::int64_t longest = keys.layout().longest();
  const std::int64_t block = query_block(longest, queries.count());
  WorkspaceScope scope(res.workspace());
  float* tiles = scope.carve<float>("attention_statistic.tiles", res.threads() * tile);
  float* logits = scope.carve<float>("attention_statistic.logits", res.threads() * block * longest);
  float* query_rows =
      scope.carve<float>("attention_statistic.queries", res.threads() * block * dim);
  if (res.workspace().counting()) return;
  res.parallel_for(keys.heads(), [&](std::int64_t h, int worker) {
    const MatrixView<T> head = keys.head(h);
    const std::int64_t rows = head.shape[0];
    if (rows == 0) return;
    const auto row_positions = positions.row(h, keys.layout());
    float* weights = logits + worker * block * longest;
    float* query_tile = query_rows + worker * block * dim;
    for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
      float* result = out.head(q);
      std::fill_n(result, rows, 0.0f);
      for (std::int64_t first = 0; first < queries.count(); first += block) {
        const std::int64_t count = std::min(block, queries.count() - first);
        load_queries(queries, q, first, count, query_tile);
        auto query_block = map_matrix(query_tile, count, dim);
        query_block *= scale;
        const auto visible_rows = [&](std::int64_t i) {
          if (probes.mask == ProbeMask::none) return rows;
          return row_positions.count_below(std::int64_t{probes.positions.at(h, first + i)} + 1,
                                           rows);
        };
        // No query of the block sees beyond this row.
        MatrixView<T> visible_head = head;
        visible_head.shape[0] = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          visible_head.shape[0] = std::max(visible_head.shape[0], visible_rows(i));
        }
        for_each_tile(visible_head, tiles + worker * tile,
                      [&](std::int64_t start, const auto& key_block) {
                        map_matrix(weights + start, count, key_block.rows(), rows).noalias() =
                            query_block * key_block.transpose();
                      });
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t visible = visible_rows(i);
          if (visible == 0) continue;
          float* row = weights + i * rows;
          const Exponentials all = exponentials(row, visible);
          if (all.sum == 0.0) continue;
          const double weight = statistic == AttentionStatistic::sum && decay < 1.0f
                                    ? std::pow(static_cast<double>(decay),
                                               static_cast<double>(queries.count() - 1 - first - i))
                                    : 1.0;
          accumulate(statistic, all, row, visible, weight, result);
        }
      }
      finish(statistic, queries.count(), rows, result);
    }
  });
}

}  // namespace kvevict::cpu
