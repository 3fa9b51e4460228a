// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/merge_rows.cuh"

namespace kvevict_test {

using namespace kvevict;

template <class T>
void merge_rows_impl(MirrorResources& res, SelectionView<> kept, const RowsView<const T>& keys,
                     const RowsView<T>& values, const MergeOptions& options) {
  KVEVICT_MIRROR(merge_rows, kept, keys, values, options);
}

template <class T>
void merge_following_rows_impl(MirrorResources& res, SelectionView<> kept,
                               const Positions<>& positions, ScoreView<> attention,
                               const RowsView<T>& values, const FollowingMergeOptions& options) {
  KVEVICT_MIRROR(merge_following_rows, kept, OfRows(positions, values.layout()), attention, values,
                 options);
}

#define KVEVICT_MIRROR_OPS(T)                                                                    \
  template void merge_rows_impl(MirrorResources&, SelectionView<>, const RowsView<const T>&,     \
                                const RowsView<T>&, const MergeOptions&);                        \
  template void merge_following_rows_impl(MirrorResources&, SelectionView<>, const Positions<>&, \
                                          ScoreView<>, const RowsView<T>&,                       \
                                          const FollowingMergeOptions&);

KVEVICT_MIRROR_OPS(float)
KVEVICT_MIRROR_OPS(kvevict::half)
KVEVICT_MIRROR_OPS(kvevict::bfloat16)

}  // namespace kvevict_test
