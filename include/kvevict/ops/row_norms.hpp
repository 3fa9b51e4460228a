// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/evidence.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// scores[h][i] = scale * |rows[h][i]|_2, accumulated in fp32. Reads the rows once.
template <class R, class T>
void row_norms(R& res, const RowsView<T, R::space>& rows, float scale, ScoreView<R::space> scores) {
  detail::require_scores(scores, rows.layout(), 1);
  row_norms_impl(res, rows, scale, scores);
}

/// The same scores, bit by bit, from norms that are known: scores[h][i] = scale * norms[h][i].
template <class R>
void scale_norms(R& res, const KeyNorms<R::space>& norms, float scale, ScoreView<R::space> scores) {
  require(same_rows(norms.layout, scores.layout), "key_norms.rows", "different",
          "one norm for each row of each head");
  scale_norms_impl(res, norms, scale, scores);
}

/// norms[h] = those that are known of the first rows of head h, then |rows[h][i]|_2 of the others,
/// which alone are read. On the CPU.
template <class R, class T>
void append_row_norms(R& res, const RowsView<T, R::space>& rows, const KeyNorms<R::space>& known,
                      ScoreView<R::space> norms) {
  detail::require_scores(norms, rows.layout(), 1, "norms");
  require(known.layout.heads() == rows.heads(), "key_norms.heads", known.layout.heads(), "equal to",
          rows.heads());
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    require_for_head(known.layout.rows(h) <= rows.rows(h), "key_norms.rows", h,
                     known.layout.rows(h), "at most the rows of the head,", rows.rows(h));
  }
  append_row_norms_impl(res, rows, known, norms);
}

}  // namespace kvevict
