// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/positions.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// out[h][j] = root mean square, over the n queries i of all query heads q of the group, of
///   |R_q (o_i - o_i')| = p_ij / (1 - p_ij) |R_q (v_j - o_i)|
/// how far the attention output o_i = sum_j p_ij v_j moves when row j alone leaves, p as in
/// attention_statistic and R_q = transforms[q], [query_head][any][dim of values] with adjacent
/// columns (none: the identity). A row with more than half of a query's weight is treated apart, by
///   p_ij |R_q (v_j - o_i')|, o_i' the output over the other rows
/// which is the same and loses no digits as p_ij goes to 1. Where the other rows have no weight in
/// fp32 (there are none, or their logits are more than 87 lower) the output without the row is
/// taken to be 0. A query that sees no row contributes 0. Differences are formed before they are
/// squared; squares of them above 3e38, or below 1e-38, leave fp32. Cost n N (2 dim of keys + 5 dim
/// of values) flops for each query head, with transforms 2 N dim^2 more for each 64 queries.
template <class R, class T>
void drop_loss(R& res, const RowsView<T, R::space>& keys, const RowsView<T, R::space>& values,
               const Positions<R::space>& positions, const ProbeQueries<R::space>& probes,
               float scale, const MatrixBatchView<const float, R::space>& transforms,
               ScoreView<R::space> out) {
  detail::require_dim(probes.queries.dim(), keys.dim(), "queries.dim");
  const std::int64_t group =
      detail::require_group(probes.queries.heads(), keys.heads(), "queries.heads");
  require(probes.mask == ProbeMask::none || probes.positions.given(), "queries.positions",
          "missing", "given for a mask by position");
  require(probes.queries.count() >= 1, "queries.count", probes.queries.count(), ">=", 1);
  require(same_rows(keys.layout(), values.layout()), "values", "of another shape",
          "one for each key");
  if (!transforms.empty()) {
    require(transforms.shape[0] == keys.heads() * group, "output_projection.heads",
            transforms.shape[0], "equal to the query heads,", keys.heads() * group);
    detail::require_dim(transforms.shape[2], values.dim(), "output_projection.dim");
    require(transforms.stride[2] == 1, "output_projection.stride", transforms.stride[2],
            "1 between columns");
  }
  detail::require_scores(out, keys.layout(), 1, "out");
  drop_loss_impl(res, keys, values, positions, probes, group, scale, transforms, out);
}

}  // namespace kvevict
