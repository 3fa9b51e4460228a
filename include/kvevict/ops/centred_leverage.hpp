// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/row_range.hpp"
#include "kvevict/ops/capacity.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// scores[h][i] = (R x_i)^T (s2 I + R C R^T)^-1 (R x_i), x_i = rows[h][i] - m with m the mean of
/// the rows of the range and C = sum of x_j x_j^T over them: the statistical leverage of row i, in
/// [0, 1). R is a d x d matrix for each head, or I when `transforms` is empty; rows of zeros in R
/// leave directions out. Rows outside the range get 0. m is rounded to fp32 once and subtracted
/// exactly enough for keys with a large common part; products and sums of C in double; agrees with
/// double precision to 1e-4 as capacity_scores does. A head whose rows are all the same, or whose
/// matrix cannot be factorised, scores 0 and is counted in the report. One read of the rows for m
/// and two behind it, 3 N dim^2 flops.
template <class R, class T>
void centred_leverage(R& res, const RowsView<T, R::space>& rows,
                      MatrixBatchView<const float, R::space> transforms, const RowRange& range,
                      Noise noise, ScoreView<R::space> scores) {
  require_valid(noise);
  require_valid(range);
  detail::require_scores(scores, rows.layout(), 1);
  if (!transforms.empty()) {
    require(transforms.shape[0] == rows.heads(), "transforms.heads", transforms.shape[0],
            "equal to", rows.heads());
    detail::require_dim(transforms.shape[1], rows.dim(), "transforms.dim");
    detail::require_dim(transforms.shape[2], rows.dim(), "transforms.dim");
  }
  centred_leverage_impl(res, rows, transforms, range, noise, scores);
}

/// A Gaussian sketch as a transform [dim][dim]: rows below `width` hold independent N(0, 1 /
/// width), the others zeros. Depends on nothing but the seed and the place in the matrix.
template <class R>
void gaussian_sketch(R& res, std::uint64_t seed, std::int64_t width,
                     MatrixView<float, R::space> sketch) {
  require(width >= 1 && width <= sketch.shape[0], "width", width,
          "in [1, dim], dim =", sketch.shape[0]);
  gaussian_sketch_impl(res, seed, width, sketch);
}

}  // namespace kvevict
