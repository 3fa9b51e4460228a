// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/math/mean_rotation.hpp"
#include "kvevict/ops/query_moments.hpp"

namespace kvevict {

/// The statistics of rotated queries from the moments (m, M) of queries of a total weight of
/// `weight` (their number, if they count alike) before the rotation: mean[q] = Rbar m and, by the
/// kind of covariance, second[q] = Lambda = Rbar (M / weight) Rbar^T [dim][dim], its diagonal [dim]
/// or nothing, with Rbar the mean rotation of `rope`'s pairs (arXiv 2510.00636). In double, stored
/// in fp32. Throws invalid_argument when nothing was observed. O(heads * moment_size).
template <class R>
void finish_query_stats(R& res, const QueryMoments<R::space, const double>& moments, double weight,
                        const Rope& rope, const MeanRotation& rotation, Covariance covariance,
                        MatrixView<float, R::space> mean, MatrixView<float, R::space> second) {
  require(weight > 0.0, "weight of the observed queries", weight, "> 0");
  const auto pairs = static_cast<std::int64_t>(rotation.cosine.size());
  require(pairs == rope.rotated(moments.mean.shape[1]) / 2, "rotation.pairs", pairs,
          "rotary_dim / 2 =", rope.rotated(moments.mean.shape[1]) / 2);
  finish_query_stats_impl(res, moments, weight, rope, rotation, covariance, mean, second);
}

}  // namespace kvevict
