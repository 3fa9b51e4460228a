// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/positions.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// out[h][i] = (rows - rank) / rows in (0, 1], rank = 0 for the best row of head h in the order of
/// selection: score descending, then row ascending, NaN lowest. All rows of a head get different
/// values. In place when `out` is the storage of `scores`. A sort of each head: O(rows log rows),
/// on a device O(rows log^2 rows). Throws unsupported for heads above 2^24 rows, whose ranks fp32
/// does not tell apart.
template <class R>
void rank_scores(R& res, ScoreView<R::space> scores, ScoreView<R::space> out) {
  detail::require_scores(out, scores.layout, 1, "out");
  require(scores.layout.longest() <= (std::int64_t{1} << 24), "rows", scores.layout.longest(),
          "at most 2^24 for scores that are ranks", ErrorKind::unsupported);
  rank_scores_impl(res, scores, out);
}

/// out[h][i] = part of head h's mass that is lost when the head keeps its protected rows and those
/// that rank before row i, but not i: the sum over i and the unprotected rows after it in the order
/// of selection, divided by the sum over all rows. Scores are taken as masses: negative ones and
/// NaN count as zero, infinite ones as the largest float; a head of zeros has equal masses. Values
/// fall along the order and are comparable across heads: all heads cut at one value lose, but for
/// one row, the same part. Protected rows get 1. Computed with integers of 52 bits or, for long
/// heads, fewer (62 - log2 rows): equal on every device. `out` is other memory than `scores`. Cost
/// as rank_scores.
template <class R>
void remaining_mass(R& res, ScoreView<R::space> scores, const Positions<R::space>& positions,
                    const Protect& protect, ScoreView<R::space> out) {
  require_valid(protect);
  detail::require_scores(out, scores.layout, 1, "out");
  require(res.workspace().counting() || out.data != scores.data || scores.layout.total() == 0,
          "out", "the scores themselves", "other memory");
  remaining_mass_impl(res, scores, positions, protect, out);
}

}  // namespace kvevict
