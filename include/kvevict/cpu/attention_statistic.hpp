// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/attention_blocks.hpp"
#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/softmax.hpp"
#include "kvevict/ops/attention_statistic.hpp"

namespace kvevict::cpu {

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
  const std::int64_t queries = probes.queries.count();
  WorkspaceScope scope(res.workspace());
  const AttentionBlocks<T> blocks(res, scope, keys, positions, probes, group, scale);
  if (res.workspace().counting()) return;
  res.parallel_for(keys.heads(), [&](std::int64_t h, int worker) {
    const std::int64_t rows = keys.rows(h);
    if (rows == 0) return;
    for (std::int64_t q = h * group; q < (h + 1) * group; ++q) std::fill_n(out.head(q), rows, 0.0f);
    blocks.for_each(
        h, worker, [&](std::int64_t first, std::int64_t count, std::int64_t, float* logits) {
          for (std::int64_t i = first; i < first + count; ++i) {
            float* row = logits + (i - first) * rows;
            const std::int64_t visible = blocks.visible_rows(h, i);
            const Exponentials all = exponentials(row, visible);
            if (all.sum == 0.0) continue;  // it sees nothing
            const std::int64_t age = queries - 1 - blocks.query_of(i);
            const double weight =
                statistic == AttentionStatistic::sum && decay < 1.0f
                    ? std::pow(static_cast<double>(decay), static_cast<double>(age))
                    : 1.0;
            accumulate(statistic, all, row, visible, weight, out.head(blocks.head_of(h, i)));
          }
        });
    for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
      finish(statistic, queries, rows, out.head(q));
    }
  });
}

}  // namespace kvevict::cpu
