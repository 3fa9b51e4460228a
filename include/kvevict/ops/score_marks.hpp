// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/positions.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

// Marks single out rows of a head that are to rank before all others: a number in (0, 1] for each
// marked row, by which marked rows rank among each other, and 0 for the others.

/// marks[h][i] = ranks[h][i] for the first trunc(part * of.rows(h)) rows in the order that `ranks`,
/// from rank_scores, says, and 0 for the others. `of` counts the rows that the part is one of: all
/// rows of each head, or those that it is to keep. In place when `marks` is the storage of `ranks`.
template <class R>
void mark_best(R& res, ScoreView<R::space> ranks, double part, const RowLayout<R::space>& of,
               ScoreView<R::space> marks) {
  require(part >= 0.0 && part <= 1.0, "part", part, "in [0, 1]");
  require_counts_fit(SelectionView<R::space>{of, nullptr}, ranks.layout);
  detail::require_scores(marks, ranks.layout, 1, "marks");
  mark_best_impl(res, ranks, part, of, marks);
}

/// marks[h][i] = 1 for the rows that `protect` names, 0 for the others.
template <class R>
void mark_protected(R& res, const Positions<R::space>& positions, const Protect& protect,
                    ScoreView<R::space> marks) {
  require_valid(protect);
  mark_protected_impl(res, positions, protect, marks);
}

/// marks[h][i] = 1 where norms[h][i] < threshold * mean norm of head h, else 0. Nothing is marked
/// in a head whose norms are not all finite. In place when `marks` is the storage of `norms`.
template <class R>
void mark_small(R& res, ScoreView<R::space> norms, double threshold, ScoreView<R::space> marks) {
  require(threshold >= 0.0 && threshold <= 1.0, "threshold", threshold, "in [0, 1]");
  detail::require_scores(marks, norms.layout, 1, "marks");
  mark_small_impl(res, norms, threshold, marks);
}

/// Makes the marked rows rank before all others of their head: scores[h][i] = (b + 1) (1 + mark),
/// b = the largest score of the rows without a mark, or 0 if that is negative or absent; NaN is
/// passed over. Rows without a mark keep their scores. Where b + 1 leaves the range of floats,
/// marked rows are infinite and rank by position.
template <class R>
void lift_marked(R& res, ScoreView<R::space> marks, ScoreView<R::space> scores) {
  detail::require_scores(marks, scores.layout, 1, "marks");
  lift_marked_impl(res, marks, scores);
}

}  // namespace kvevict
