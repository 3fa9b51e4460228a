// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "kvevict/core/evidence.hpp"
#include "kvevict/ops/capacity.hpp"
#include "kvevict/ops/checks.hpp"
#include "kvevict/ops/query_logits.hpp"

namespace kvevict {

/// How the capacity of a whole softmax Jacobian is measured; fields as those of Jacap.
struct JacobianCapacityOptions {
  double temperature = 1.0;
  Covariance covariance = Covariance::full;
  /// Relative: to trace(J Lambda J^T) / channels of u, over all rows.
  Noise noise = Noise::relative(0.1);
};

/// What the channel from a future query to the attention output loses when one row leaves, with the
/// whole softmax Jacobian: for analysis, and to measure Jacap's diagonal by. Per query head, a =
/// softmax(k . mu / (temperature sqrt(d))) over the N rows and u = v, or u = R v,
///   J = (1 / (temperature sqrt(d))) sum_i a_i (u_i - ubar) (k_i - kbar)^T   d outputs / d query
///   C = 1/2 log det(I + J Lambda J^T / s2),   Lambda the covariance of the queries
///   losses[q][j] = C - C_j,   C_j that of the other rows, softmax renormalised and s2 as it was
/// Not an approximation: without row j
///   J_j = (J - a_j / (1 - a_j) (u_j - ubar) (k_j - kbar)^T / (temperature sqrt(d))) / (1 - a_j)
/// and a row with more than half of the weight is taken out instead, so that no digit is lost. A
/// loss can be negative: without the row that saturates a softmax, it passes more. Without any
/// other row with weight C_j is 0.
///
/// R = transforms[q], [query_head][any][dim of values] with adjacent columns (none: the identity).
/// `capacities` [query heads] and `losses` [query_head][row] are doubles, as is all arithmetic. A
/// head whose J is 0 has capacity and losses 0 and is counted (zero_capacity_heads); what is not
/// finite makes NaN of its head. On the CPU. Cost N (2 d^3 + d^3 / 3) flops for each query head:
/// for a few hundred rows.
template <class R, class T>
void jacobian_capacity_losses(R& res, const RowsView<T, R::space>& keys,
                              const RowsView<T, R::space>& values,
                              const QueryStatsView<R::space>& stats,
                              const MatrixBatchView<const float, R::space>& transforms,
                              const JacobianCapacityOptions& options, std::span<double> capacities,
                              std::span<double> losses) {
  require(options.temperature > 0.0 && std::isfinite(options.temperature), "temperature",
          options.temperature, "finite and > 0");
  require(options.covariance != Covariance::none, "covariance", "none", "diagonal or full");
  require_valid(options.noise);
  require_evidence(Evidence<R::space>{.query_stats = stats}, evidence_for(options.covariance),
                   "jacobian_capacity_losses");
  const std::int64_t query_heads = stats.mean.shape[0];
  const std::int64_t group =
      detail::require_group(query_heads, keys.heads(), "query_stats.mean.heads");
  detail::require_dim(stats.mean.shape[1], keys.dim(), "query_stats.mean.dim");
  require(same_rows(keys.layout(), values.layout()), "values", "of another shape",
          "one for each key");
  if (!transforms.empty()) {
    require(transforms.shape[0] == query_heads, "output_projection.heads", transforms.shape[0],
            "equal to the query heads,", query_heads);
    detail::require_dim(transforms.shape[2], values.dim(), "output_projection.dim");
    require(transforms.stride[2] == 1, "output_projection.stride", transforms.stride[2],
            "1 between columns");
  }
  require(static_cast<std::int64_t>(capacities.size()) == query_heads, "capacities.size",
          capacities.size(), "one for each query head,", query_heads);
  const std::int64_t total = keys.layout().repeated(group).total();
  require(static_cast<std::int64_t>(losses.size()) == total, "losses.size", losses.size(),
          "one for each row of each query head,", total);
  jacobian_capacity_losses_impl(res, keys, values, stats, transforms, group, options, capacities,
                                losses);
}

}  // namespace kvevict
