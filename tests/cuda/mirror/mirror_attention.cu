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

KVEVICT_MIRROR_OPS(float)
KVEVICT_MIRROR_OPS(const float)
KVEVICT_MIRROR_OPS(kvevict::half)
KVEVICT_MIRROR_OPS(const kvevict::half)
KVEVICT_MIRROR_OPS(kvevict::bfloat16)
KVEVICT_MIRROR_OPS(const kvevict::bfloat16)

}  // namespace kvevict_test
