// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/score_order.cuh"
#include "kvevict/cuda/score_spread.cuh"
#include "kvevict/cuda/shared_scores.cuh"

namespace kvevict_test {

using namespace kvevict;

void rank_scores_impl(MirrorResources& res, ScoreView<> scores, ScoreView<> out) {
  KVEVICT_MIRROR(rank_scores, scores, out);
}

void remaining_mass_impl(MirrorResources& res, ScoreView<> scores, const Positions<>& positions,
                         const Protect& protect, ScoreView<> out) {
  KVEVICT_MIRROR(remaining_mass, scores, OfRows(positions, scores.layout), protect, out);
}

void effective_rows_impl(MirrorResources& res, ScoreView<> scores, Spread spread, double* out) {
  KVEVICT_MIRROR(effective_rows, scores, spread, (Delivered<double>{out, scores.layout.heads()}));
}

void share_scores_impl(MirrorResources& res, ScoreView<> scores, std::int64_t group,
                       GroupReduction reduction) {
  KVEVICT_MIRROR(share_scores, scores, group, reduction);
}

}  // namespace kvevict_test
