// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// Norms of projected rows.
enum class ProjectedNorm {
  euclidean,    ///< |W x|_2
  absolute_sum  ///< |W x|_1
};

/// out[q][i] = |W_q x|, x = rows[q / group][i] and W_q = transforms[q], [query_head][any][dim] with
/// adjacent columns: factors of output projections, or the projections themselves. Accumulated in
/// double. 2 N dim flops for each row of a transform.
template <class R, class T>
void projected_norms(R& res, const RowsView<T, R::space>& rows,
                     const MatrixBatchView<const float, R::space>& transforms, ProjectedNorm norm,
                     ScoreView<R::space> out) {
  const std::int64_t group =
      detail::require_group(transforms.shape[0], rows.heads(), "output_projection.heads");
  detail::require_scores(out, rows.layout(), group, "out");
  detail::require_dim(transforms.shape[2], rows.dim(), "output_projection.dim");
  require(transforms.stride[2] == 1, "output_projection.stride", transforms.stride[2],
          "1 between columns");
  projected_norms_impl(res, rows, transforms, group, norm, out);
}

}  // namespace kvevict
