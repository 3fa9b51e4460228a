// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/row_weighting.cuh"

namespace kvevict_test {

using namespace kvevict;

template <class T>
void weight_by_norm_impl(MirrorResources& res, const RowsView<T>& rows,
                         MatrixBatchView<const float> transforms, std::int64_t group,
                         Epsilon epsilon, ReductionDomain domain, ScoreView<> scores) {
  KVEVICT_MIRROR(weight_by_norm, rows, transforms, group, epsilon, domain, scores);
}

#define KVEVICT_MIRROR_OPS(T)                                                            \
  template void weight_by_norm_impl(MirrorResources&, const RowsView<T>&,                \
                                    MatrixBatchView<const float>, std::int64_t, Epsilon, \
                                    ReductionDomain, ScoreView<>);

KVEVICT_MIRROR_ELEMENTS(KVEVICT_MIRROR_OPS)

void raise_rows_impl(MirrorResources& res, const Positions<>& positions, const RaisedRows<>& raised,
                     ScoreView<> scores) {
  KVEVICT_MIRROR(raise_rows, OfRows(positions, scores.layout),
                 (OfRaised{raised, scores.layout.heads()}), scores);
}

void exponential_root_weights_impl(MirrorResources& res, ScoreView<> z, float scale, float offset,
                                   std::int64_t skip_first, ScoreView<> out) {
  KVEVICT_MIRROR(exponential_root_weights, z, scale, offset, skip_first, out);
}

void multiply_by_root_impl(MirrorResources& res, ScoreView<> quadratic, ScoreView<> jacobian) {
  KVEVICT_MIRROR(multiply_by_root, quadratic, jacobian);
}

}  // namespace kvevict_test
