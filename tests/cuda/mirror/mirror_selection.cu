// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/global_counts.cuh"
#include "kvevict/cuda/protect.cuh"
#include "kvevict/cuda/select_top.cuh"

namespace kvevict_test {

using namespace kvevict;

void protected_counts_impl(MirrorResources& res, const Positions<>& positions,
                           const Protect& protect, const RowLayout<>& layout, std::int64_t* held) {
  KVEVICT_MIRROR(protected_counts, OfRows(positions, layout), protect, layout,
                 (Delivered<std::int64_t>{held, layout.heads()}));
}

void select_top_impl(MirrorResources& res, ScoreView<> scores, const Positions<>& positions,
                     const Protect& protect, const RowLayout<>& kept, std::int32_t* indices) {
  KVEVICT_MIRROR(select_top, scores, OfRows(positions, scores.layout), protect, kept,
                 (Counted<std::int32_t>{indices, kept.total()}));
}

void global_counts_impl(MirrorResources& res, const AllocationInput<>& input,
                        const ThresholdGroups& groups, std::int64_t* counts) {
  KVEVICT_MIRROR(global_counts, input, groups, counts);
}

}  // namespace kvevict_test
