// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/query_logits.cuh"

namespace kvevict_test {

using namespace kvevict;

template <class T>
void query_logits_impl(MirrorResources& res, const RowsView<T>& rows,
                       MatrixView<const float> vectors, std::int64_t group, float scale,
                       ScoreView<> logits) {
  KVEVICT_MIRROR(query_logits, rows, vectors, group, scale, logits);
}

template <class T>
void quadratic_form_impl(MirrorResources& res, const RowsView<T>& rows,
                         const QueryStatsView<>& stats, Covariance covariance, std::int64_t group,
                         float scale, bool add, ScoreView<> out) {
  KVEVICT_MIRROR(quadratic_form, rows, stats, covariance, group, scale, add, out);
}

#define KVEVICT_MIRROR_OPS(T)                                                                      \
  template void query_logits_impl(MirrorResources&, const RowsView<T>&, MatrixView<const float>,   \
                                  std::int64_t, float, ScoreView<>);                               \
  template void quadratic_form_impl(MirrorResources&, const RowsView<T>&, const QueryStatsView<>&, \
                                    Covariance, std::int64_t, float, bool, ScoreView<>);

KVEVICT_MIRROR_ELEMENTS(KVEVICT_MIRROR_OPS)

}  // namespace kvevict_test
