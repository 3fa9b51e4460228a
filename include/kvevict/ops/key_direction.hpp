// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// direction[h] = mean over rows of rows[h][i] / |rows[h][i]| [dim]; rows of length zero count as
/// zero vectors, and a head without rows gives zeros. KeyDiff's anchor (arXiv 2504.15364). Reads
/// the rows once.
template <class R, class T>
void mean_direction(R& res, const RowsView<T, R::space>& rows,
                    MatrixView<float, R::space> direction) {
  detail::require_dim(direction.shape[1], rows.dim(), "direction.dim");
  require(direction.shape[0] == rows.heads(), "direction.heads", direction.shape[0], "equal to",
          rows.heads());
  mean_direction_impl(res, rows, direction);
}

/// scores[v][i] = scale * cos(directions[v], rows[v / group][i]) for `group` directions per head,
/// directions [heads * group][dim]. The cosine with a vector of length zero is 0; results stay
/// within [-1, 1] times scale. Reads the rows once for all directions of a head.
template <class R, class T>
void cosine(R& res, const RowsView<T, R::space>& rows, MatrixView<const float, R::space> directions,
            float scale, ScoreView<R::space> scores) {
  detail::require_dim(directions.shape[1], rows.dim(), "directions.dim");
  const std::int64_t group =
      detail::require_group(directions.shape[0], rows.heads(), "directions.heads");
  detail::require_scores(scores, rows.layout(), group);
  cosine_impl(res, rows, directions, group, scale, scores);
}

}  // namespace kvevict
