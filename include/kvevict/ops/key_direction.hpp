// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/selection.hpp"
#include "kvevict/ops/checks.hpp"
#include "kvevict/ops/gather.hpp"

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

/// sums[h] = those of the rows before row begin[h], if any, plus rows[h][i] / |rows[h][i]| of the
/// rows from there on, which alone are read; `begin` [heads] in host memory. In double. On the CPU.
template <class R, class T>
void add_directions(R& res, const RowsView<T, R::space>& rows, const std::int64_t* begin,
                    MatrixView<double, R::space> sums) {
  detail::require_dim(sums.shape[1], rows.dim(), "sums.dim");
  require(sums.shape[0] == rows.heads(), "sums.heads", sums.shape[0], "equal to", rows.heads());
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    require_for_head(begin[h] >= 0 && begin[h] <= rows.rows(h), "begin", h, begin[h],
                     "in [0, rows], rows =", rows.rows(h));
  }
  add_directions_impl(res, rows, begin, sums);
}

/// Whether a head's sum over its kept rows is had from its rows that leave, being the fewer, which
/// are then subtracted.
inline bool fewer_leave(std::int64_t rows, std::int64_t kept) { return rows - kept <= kept; }

/// sums[h] = rows[h][i] / |rows[h][i]| summed over the rows that are not kept, which alone are
/// read, in double; zero where there are more of them than of the others. On the CPU.
template <class R, class T>
void sum_leaving_directions(R& res, SelectionView<R::space> kept, const RowsView<T, R::space>& rows,
                            MatrixView<double, R::space> sums) {
  detail::require_compactable(kept, rows.layout());
  detail::require_dim(sums.shape[1], rows.dim(), "sums.dim");
  require(sums.shape[0] == rows.heads(), "sums.heads", sums.shape[0], "equal to", rows.heads());
  sum_leaving_directions_impl(res, kept, rows, sums);
}

/// direction[h] = sums[h] / rows[h], as mean_direction's; `drift` [heads] is by how much each sum
/// may be off, so that no more than that is left of directions that cancel. On the CPU.
template <class R>
void finish_direction(R& res, MatrixView<const double, R::space> sums,
                      const RowLayout<R::space>& rows, const double* drift,
                      MatrixView<float, R::space> direction) {
  detail::require_dim(direction.shape[1], sums.shape[1], "direction.dim");
  require(sums.shape[0] == rows.heads(), "sums.heads", sums.shape[0], "equal to", rows.heads());
  require(direction.shape[0] == rows.heads(), "direction.heads", direction.shape[0], "equal to",
          rows.heads());
  finish_direction_impl(res, sums, rows, drift, direction);
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
