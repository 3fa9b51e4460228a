// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/attention_statistic.cuh"

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

#define KVEVICT_MIRROR_OPS(T)                                                                      \
  template void attention_statistic_impl(MirrorResources&, const RowsView<T>&, const Positions<>&, \
                                         const ProbeQueries<>&, std::int64_t, float,               \
                                         AttentionStatistic, float, ScoreView<>);

KVEVICT_MIRROR_ELEMENTS(KVEVICT_MIRROR_OPS)

}  // namespace kvevict_test
