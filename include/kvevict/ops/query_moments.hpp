// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/queries.hpp"
#include "kvevict/math/rope.hpp"
#include "kvevict/ops/checks.hpp"
#include "kvevict/ops/query_logits.hpp"

namespace kvevict {

/// Doubles that the second moments of one head take: none, the variances and the cross moments
/// within RoPE pairs (what the diagonal after a rotation needs), or all.
inline std::int64_t moment_size(Covariance covariance, const Rope& rope, std::int64_t dim) {
  if (covariance == Covariance::none) return 0;
  return covariance == Covariance::full ? dim * dim : dim + rope.rotated(dim) / 2;
}

/// Running first and second central moments of queries, or a read-only view of them with T = const
/// double. Of a full matrix only the lower triangle counts.
template <MemorySpace S = MemorySpace::host, class T = double>
struct QueryMoments {
  MatrixView<T, S> mean;    ///< [query_head][dim]
  MatrixView<T, S> second;  ///< [query_head][moment_size]: sums of squares about the mean
};

/// Merges the queries of each head from `first` on into `moments`, which hold queries of a total
/// weight of `weight` (their number, if they count alike) so far, of which `kept_share` remains
/// (sums of squares are multiplied by it, `weight` is what remains): the pairwise update of mean
/// and sum of squares (Chan, Golub, LeVeque 1979), tile by tile in double. Needs no second pass, so
/// chunked and whole agree to rounding. Cost per query: dim for a diagonal, dim^2 for a full
/// covariance.
template <class R>
void accumulate_query_moments(R& res, const QueriesView<R::space>& queries, std::int64_t first,
                              const Rope& rope, Covariance covariance, double weight,
                              double kept_share, const QueryMoments<R::space>& moments) {
  require(first >= 0 && first <= queries.count(), "first", first,
          "in [0, queries.count], count =", queries.count());
  detail::require_dim(queries.dim(), moments.mean.shape[1], "queries.dim");
  require(queries.heads() == moments.mean.shape[0], "queries.heads", queries.heads(), "equal to",
          moments.mean.shape[0]);
  require(weight >= 0.0, "weight", weight, ">=", 0);
  require(kept_share > 0.0 && kept_share <= 1.0, "kept_share", kept_share, "in (0, 1]");
  accumulate_query_moments_impl(res, queries, first, rope, covariance, weight, kept_share, moments);
}

/// Merges the moments of `other_count` more queries into `moments`, which hold `count`, by the same
/// update. `other_count` is at least 1. O(heads * moment_size).
template <class R>
void merge_query_moments(R& res, const QueryMoments<R::space, const double>& other,
                         std::int64_t other_count, const Rope& rope, Covariance covariance,
                         std::int64_t count, const QueryMoments<R::space>& moments) {
  require(other_count >= 1, "other.count", other_count, ">=", 1);
  require(other.mean.shape[0] == moments.mean.shape[0], "other.query_heads", other.mean.shape[0],
          "equal to", moments.mean.shape[0]);
  require(other.mean.shape[1] == moments.mean.shape[1], "other.dim", other.mean.shape[1],
          "equal to", moments.mean.shape[1]);
  merge_query_moments_impl(res, other, other_count, rope, covariance, count, moments);
}

/// to[q][i] = queries[q][rows[i]] rotated by RoPE to position positions[i], fp32
/// [query_head][count][dim]. `rows` and `positions` are in host memory.
template <class R>
void rotate_queries(R& res, const QueriesView<R::space>& queries, const std::int32_t* rows,
                    const std::int32_t* positions, std::int64_t count, const Rope& rope,
                    MatrixBatchView<float, R::space> to) {
  require_valid(rope, queries.dim());
  rotate_queries_impl(res, queries, rows, positions, count, rope, to);
}

}  // namespace kvevict
