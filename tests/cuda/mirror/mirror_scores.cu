// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/baseline_scores.cuh"
#include "kvevict/cuda/group_reduction.cuh"
#include "kvevict/cuda/mass.cuh"
#include "kvevict/cuda/pooling.cuh"
#include "kvevict/cuda/softmax.cuh"

namespace kvevict_test {

using namespace kvevict;

void softmax_impl(MirrorResources& res, ScoreView<> scores, std::int64_t skip_first,
                  SoftmaxOutput output) {
  KVEVICT_MIRROR(softmax, scores, skip_first, output);
}

void reduce_group_impl(MirrorResources& res, ScoreView<> in, std::int64_t group,
                       GroupReduction reduction, ReductionDomain domain, ScoreView<> out) {
  KVEVICT_MIRROR(reduce_group, in, group, reduction, domain, out);
}

void pool_rows_impl(MirrorResources& res, const Positions<>& positions, const RowLayout<>& layout,
                    const PositionBound<>& prefix, std::int64_t kernel, Pooling pooling,
                    bool count_padding, ScoreView<> scores) {
  KVEVICT_MIRROR(pool_rows, OfRows(positions, layout), layout, (OfBound{prefix, layout.heads()}),
                 kernel, pooling, count_padding, scores);
}

void random_scores_impl(MirrorResources& res, const Positions<>& positions, std::uint64_t seed,
                        ScoreView<> scores) {
  KVEVICT_MIRROR(random_scores, OfRows(positions, scores.layout), seed, scores);
}

void recency_scores_impl(MirrorResources& res, const Positions<>& positions, std::int64_t sinks,
                         ScoreView<> scores) {
  KVEVICT_MIRROR(recency_scores, OfRows(positions, scores.layout), sinks, scores);
}

void copy_mass_impl(MirrorResources& res, const AttentionMass<>& mass, ScoreView<> scores) {
  KVEVICT_MIRROR(copy_mass, mass, scores);
}

void copy_leading_mass_impl(MirrorResources& res, const AttentionMass<>& mass, ScoreView<> scores) {
  KVEVICT_MIRROR(copy_leading_mass, mass, scores);
}

}  // namespace kvevict_test
