// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// out[h][j] = (1/N) sum over the N rows i of S_ij, S_ij = cos(rows[h][i], rows[h][j]) but 0 where
/// i = j and where j is the latest row similar to i, the last j other than i with a cosine above
/// `threshold`: of rows that repeat each other the last one counts as new (R-KV, arXiv 2505.24133).
/// A row of length zero is similar to none; a NaN makes its head NaN. What is similar is decided by
/// fp32 cosines. Memory O(N): the sums come from the mean direction of the rows, the latest similar
/// rows from tiles of products that start at the last row and end when every row of a tile has
/// found its own, at most 2 N^2 dim flops.
template <class R, class T>
void mean_similarity(R& res, const RowsView<T, R::space>& rows, float threshold,
                     ScoreView<R::space> out) {
  require(threshold >= -1.0f && threshold <= 1.0f, "threshold", threshold, "in [-1, 1]");
  detail::require_scores(out, rows.layout(), 1, "out");
  mean_similarity_impl(res, rows, threshold, out);
}

}  // namespace kvevict
