// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/query_moments.cuh"
#include "kvevict/cuda/query_stats.cuh"

namespace kvevict_test {

using namespace kvevict;

void accumulate_query_moments_impl(MirrorResources& res, const QueriesView<>& queries,
                                   std::int64_t first, const Rope& rope, Covariance covariance,
                                   double weight, double kept_share,
                                   const QueryMoments<>& moments) {
  KVEVICT_MIRROR(accumulate_query_moments, queries, first, rope, covariance, weight, kept_share,
                 moments);
}

void merge_query_moments_impl(MirrorResources& res, const HostMoments& other,
                              std::int64_t other_count, const Rope& rope, Covariance covariance,
                              std::int64_t count, const QueryMoments<>& moments) {
  KVEVICT_MIRROR(merge_query_moments, other, other_count, rope, covariance, count, moments);
}

void finish_query_stats_impl(MirrorResources& res, const HostMoments& moments, double weight,
                             const Rope& rope, const MeanRotation& rotation, Covariance covariance,
                             MatrixView<float> mean, MatrixView<float> second) {
  KVEVICT_MIRROR(finish_query_stats, moments, weight, rope, rotation, covariance, mean, second);
}

void rotate_queries_impl(MirrorResources& res, const QueriesView<>& queries,
                         const std::int32_t* rows, const std::int32_t* positions,
                         std::int64_t count, const Rope& rope, MatrixBatchView<float> to) {
  KVEVICT_MIRROR(rotate_queries, queries, rows, positions, count, rope, to);
}

}  // namespace kvevict_test
