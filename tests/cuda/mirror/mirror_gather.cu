// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/gather.cuh"
#include "kvevict/cuda/rerotate_keys.cuh"

namespace kvevict_test {

using namespace kvevict;

template <class T>
void gather_rows_impl(MirrorResources& res, SelectionView<> selection,
                      const RowsView<const T>& from, const RowsView<T>& to) {
  KVEVICT_MIRROR(gather_rows, selection, from, to);
}

template <class T>
void compact_rows_impl(MirrorResources& res, SelectionView<> selection, const RowsView<T>& rows) {
  KVEVICT_MIRROR(compact_rows, selection, rows);
}

template <class T>
void rerotate_keys_impl(MirrorResources& res, const RowsView<T>& keys, const Positions<>& from,
                        const Positions<>& to, const Rope& rope) {
  KVEVICT_MIRROR(rerotate_keys, keys, OfRows(from, keys.layout()), OfRows(to, keys.layout()), rope);
}

#define KVEVICT_MIRROR_MOVES(T)                                                               \
  template void gather_rows_impl(MirrorResources&, SelectionView<>, const RowsView<const T>&, \
                                 const RowsView<T>&);                                         \
  template void compact_rows_impl(MirrorResources&, SelectionView<>, const RowsView<T>&);

#define KVEVICT_MIRROR_OPS(T)                                                                \
  KVEVICT_MIRROR_MOVES(T)                                                                    \
  template void rerotate_keys_impl(MirrorResources&, const RowsView<T>&, const Positions<>&, \
                                   const Positions<>&, const Rope&);

KVEVICT_MIRROR_OPS(float)
KVEVICT_MIRROR_OPS(kvevict::half)
KVEVICT_MIRROR_OPS(kvevict::bfloat16)
KVEVICT_MIRROR_QUANTISED(KVEVICT_MIRROR_MOVES)

void gather_positions_impl(MirrorResources& res, SelectionView<> selection, const Positions<>& from,
                           const RowLayout<>& from_layout, const MutablePositions<>& to,
                           const RowLayout<>& to_layout) {
  KVEVICT_MIRROR(gather_positions, selection, OfRows(from, from_layout), from_layout,
                 OfRows(to, to_layout), to_layout);
}

}  // namespace kvevict_test
