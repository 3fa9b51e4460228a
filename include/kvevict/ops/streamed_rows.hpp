// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/scores.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// Rows that survive while the rows of each head arrive in blocks, in one memory space.
struct StreamedRows {
  std::int32_t* candidates = nullptr;  ///< rows that are scored now, packed by their layout
  std::int32_t* kept = nullptr;        ///< [heads][keep] rows that the last selection left
  std::int64_t keep = 0;
};

/// candidates of head h = its first `carried` kept rows and then the rows from `next` on, as many
/// as `layout` has.
template <class R>
void extend_candidates(R& res, const RowLayout<R::space>& layout, std::int64_t carried,
                       std::int64_t next, const StreamedRows& rows) {
  require(carried >= 0 && carried <= rows.keep, "carried", carried,
          "in [0, keep], keep =", rows.keep);
  extend_candidates_impl(res, layout, carried, next, rows);
}

/// Of every head with candidates: kept = the candidates that `chosen` names, and for each candidate
/// row scores[row] = its rank, from rank_scores over the candidates, if it is one of the
/// chosen.count(h) best, else `dropped`.
template <class R>
void settle_candidates(R& res, ScoreView<R::space> ranks, const SelectionView<R::space>& chosen,
                       float dropped, const StreamedRows& rows, ScoreView<R::space> scores) {
  require(chosen.layout.longest() <= rows.keep, "chosen.count", chosen.layout.longest(),
          "at most keep,", rows.keep);
  settle_candidates_impl(res, ranks, chosen, dropped, rows, scores);
}

}  // namespace kvevict
