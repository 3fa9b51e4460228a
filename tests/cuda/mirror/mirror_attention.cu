// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/attention_statistic.cuh"
#include "kvevict/cuda/drop_loss.cuh"

namespace kvevict_test {

using namespace kvevict;

template <class T>
void attention_statistic_impl(MirrorResources& res, const RowsView<T>& keys,
                              const Positions<>& positions, const ProbeQueries<>& probes,
                              std::int64_t group, float scale, AttentionStatistic statistic,
                              float decay, ScoreView<> out) {
  KVEVICT_MIRROR(attention_statistic, keys, OfRows(positions, keys.layout()),
                 (OfProbes{probes, keys.heads()}), group, scale, statistic, decay, out);
}

template <class T>
void drop_loss_impl(MirrorResources& res, const RowsView<T>& keys, const RowsView<T>& values,
                    const Positions<>& positions, const ProbeQueries<>& probes, std::int64_t group,
                    float scale, const MatrixBatchView<const float>& transforms, ScoreView<> out) {
  KVEVICT_MIRROR(drop_loss, keys, values, OfRows(positions, keys.layout()),
                 (OfProbes{probes, keys.heads()}), group, scale, transforms, out);
}

#define KVEVICT_MIRROR_OPS(T)                                                                      \
  template void attention_statistic_impl(MirrorResources&, const RowsView<T>&, const Positions<>&, \
                                         const ProbeQueries<>&, std::int64_t, float,               \
                                         AttentionStatistic, float, ScoreView<>);                  \
  template void drop_loss_impl(MirrorResources&, const RowsView<T>&, const RowsView<T>&,           \
                               const Positions<>&, const ProbeQueries<>&, std::int64_t, float,     \
                               const MatrixBatchView<const float>&, ScoreView<>);

KVEVICT_MIRROR_ELEMENTS(KVEVICT_MIRROR_OPS)

}  // namespace kvevict_test
