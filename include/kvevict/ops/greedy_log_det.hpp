// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/positions.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/ops/capacity.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// indices[kept.offset(h) ...] = rows C of head h, ascending, chosen one after another so that each
/// adds most to
///   log det( s2 I + sum_{i in C} w_i u_i u_i^T ),   u_i = R v_i, w_i = root_weights[h][i]^2
/// to what the protected rows, which come first, already give: the gain of row i is log(1 + w_i
/// u_i^T A_C^-1 u_i). R = transforms[h], [head][any][dim of values] with adjacent columns (none:
/// the identity); relative noise s2 is relative to the sum over all rows, as it is for leverages.
/// Exactly kept.rows(h) rows; of equal gains the first row. A row whose weight or value is not
/// finite comes last and counts as a NaN score in the report. A head whose weighted values are all
/// 0 keeps its first rows and is counted (zero_capacity_heads).
///
/// The function is submodular: a gain only falls as C grows, since A_C does, so what was found
/// earlier bounds it from above. A heap of bounds therefore finds the best row, often after a few
/// evaluations, and makes the picks that evaluating all rows each time would. Whatever the weights,
/// the sum of gains is at least 1 - 1/e of the largest that so many rows can have.
///
/// log_dets[h] (or null) = log det A_C - log det s2 I, the protected rows' part included. In
/// double. Cost for d channels, N rows and B picks: N d + (B + evaluations) d^2, evaluations
/// between B and N B. Throws invalid_argument when a head is to keep more rows than it has and a
/// budget error when its protected rows exceed its count.
template <class R, class T>
void greedy_log_det(R& res, const RowsView<T, R::space>& values, ScoreView<R::space> root_weights,
                    const MatrixBatchView<const float, R::space>& transforms, const Noise& noise,
                    const Positions<R::space>& positions, const Protect& protect,
                    const RowLayout<R::space>& kept, std::int32_t* indices, double* log_dets) {
  require_valid(noise);
  require_valid(protect);
  detail::require_scores(root_weights, values.layout(), 1, "root_weights");
  if (!transforms.empty()) {
    require(transforms.shape[0] == values.heads(), "transforms.heads", transforms.shape[0],
            "equal to the KV heads,", values.heads());
    detail::require_dim(transforms.shape[2], values.dim(), "transforms.dim");
    require(transforms.stride[2] == 1, "transforms.stride", transforms.stride[2],
            "1 between columns");
  }
  if (!res.workspace().counting()) {
    require_counts_fit(SelectionView<R::space>{kept, indices}, values.layout());
  }
  greedy_log_det_impl(res, values, root_weights, transforms, noise, positions, protect, kept,
                      indices, log_dets);
}

}  // namespace kvevict
