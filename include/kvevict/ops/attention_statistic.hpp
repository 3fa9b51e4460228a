// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/positions.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// What is taken over the queries of a query head, for each row j, of the attention weights p_ij.
enum class AttentionStatistic {
  sum,                    ///< sum_i decay^(n-1-i) p_ij
  mean,                   ///< (1/n) sum_i p_ij
  root_mean_square,       ///< sqrt((1/n) sum_i p_ij^2)
  maximum,                ///< max_i p_ij
  mean_jacobian_diagonal  ///< (1/n) sum_i p_ij (1 - p_ij)
};

/// out[q][j] = statistic over the n queries i of query head q of p_ij = softmax_j(queries[q][i] .
/// keys[q / group][j] * scale). With `ProbeMask::by_position` query i sees only the rows at its
/// position and below, found from positions so that a cache with holes is right; a query that sees
/// no row contributes 0. No n x N buffer: at most a block of queries over the rows of one head at a
/// time. Cost 2 n N dim flops and n N exponentials for each query head.
template <class R, class T>
void attention_statistic(R& res, const RowsView<T, R::space>& keys,
                         const Positions<R::space>& positions, const ProbeQueries<R::space>& probes,
                         float scale, AttentionStatistic statistic, ScoreView<R::space> out,
                         float decay = 1.0f) {
  require(decay > 0.0f && decay <= 1.0f, "decay", decay, "in (0, 1]");
  detail::require_dim(probes.queries.dim(), keys.dim(), "queries.dim");
  const std::int64_t group =
      detail::require_group(probes.queries.heads(), keys.heads(), "queries.heads");
  require(probes.mask == ProbeMask::none || probes.positions.given(), "queries.positions",
          "missing", "given for a mask by position");
  require(probes.queries.count() >= 1, "queries.count", probes.queries.count(), ">=", 1);
  detail::require_scores(out, keys.layout(), group, "out");
  attention_statistic_impl(res, keys, positions, probes, group, scale, statistic, decay, out);
}

}  // namespace kvevict
