// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// scores[h][i] = scale * |rows[h][i]|_2, accumulated in fp32. Reads the rows once.
template <class R, class T>
void row_norms(R& res, const RowsView<T, R::space>& rows, float scale, ScoreView<R::space> scores) {
  detail::require_scores(scores, rows.layout(), 1);
  row_norms_impl(res, rows, scale, scores);
}

}  // namespace kvevict
