// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/chunk_attention.cuh"
#include "kvevict/cuda/lag_scores.cuh"
#include "kvevict/cuda/score_arithmetic.cuh"

namespace kvevict_test {

using namespace kvevict;

void window_shares_impl(MirrorResources& res, ScoreView<> scores, std::int64_t window,
                        ReductionDomain domain) {
  KVEVICT_MIRROR(window_shares, scores, window, domain);
}

void standardise_impl(MirrorResources& res, const RowRange& range, ScoreView<> scores) {
  KVEVICT_MIRROR(standardise, range, scores);
}

void lag_scores_impl(MirrorResources& res, ScoreView<> keys, ScoreView<> values,
                     const LagPartitions& partitions, bool ranks, ScoreView<> scores) {
  KVEVICT_MIRROR(lag_scores, keys, values, partitions, ranks, scores);
}

template <class T>
void lag_deviation_impl(MirrorResources& res, const RowsView<T>& rows,
                        const LagPartitions& partitions, ScoreView<> out) {
  KVEVICT_MIRROR(lag_deviation, rows, partitions, out);
}

template <class T>
void chunk_attention_impl(MirrorResources& res, const RowsView<T>& keys,
                          const Positions<>& positions, const QueryWindow<>& window,
                          std::int64_t group, const RowRange& range, std::int64_t chunk,
                          ChunkPadding padding, float scale, ScoreView<> out) {
  KVEVICT_MIRROR(chunk_attention, keys, OfRows(positions, keys.layout()),
                 (OfWindow{window, keys.heads()}), group, range, chunk, padding, scale, out);
}

#define KVEVICT_MIRROR_OPS(T)                                                                  \
  template void lag_deviation_impl(MirrorResources&, const RowsView<T>&, const LagPartitions&, \
                                   ScoreView<>);                                               \
  template void chunk_attention_impl(MirrorResources&, const RowsView<T>&, const Positions<>&, \
                                     const QueryWindow<>&, std::int64_t, const RowRange&,      \
                                     std::int64_t, ChunkPadding, float, ScoreView<>);

KVEVICT_MIRROR_ELEMENTS(KVEVICT_MIRROR_OPS)

#define KVEVICT_MIRROR_DEVIATIONS(T)                                           \
  template void lag_deviation_impl(MirrorResources&, const RowsView<const T>&, \
                                   const LagPartitions&, ScoreView<>);

KVEVICT_MIRROR_QUANTISED(KVEVICT_MIRROR_DEVIATIONS)

}  // namespace kvevict_test
