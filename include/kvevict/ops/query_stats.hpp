// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/math/mean_rotation.hpp"
#include "kvevict/ops/query_moments.hpp"

namespace kvevict {

/// The statistics of rotated queries from the moments (m, M) of `count` queries before the
/// rotation: mean[q] = Rbar m and, by the kind of covariance, second[q] = Lambda = Rbar (M / count)
/// Rbar^T [dim][dim], its diagonal [dim] or nothing, with Rbar the mean rotation of `rope`'s pairs
/// (arXiv 2510.00636). In double, stored in fp32. Throws invalid_argument when nothing was
/// observed. O(heads * moment_size).
template <class R>
void finish_query_stats(R& res, const QueryMoments<R::space, const double>& moments,
                        std::int64_t count, const Rope& rope, const MeanRotation& rotation,
                        Covariance covariance, MatrixView<float, R::space> mean,
                        MatrixView<float, R::space> second) {
  require(count >= 1, "observed queries", count, ">=", 1);
  const auto pairs = static_cast<std::int64_t>(rotation.cosine.size());
  require(pairs == rope.rotated(moments.mean.shape[1]) / 2, "rotation.pairs", pairs,
          "rotary_dim / 2 =", rope.rotated(moments.mean.shape[1]) / 2);
  finish_query_stats_impl(res, moments, count, rope, rotation, covariance, mean, second);
}

}  // namespace kvevict
