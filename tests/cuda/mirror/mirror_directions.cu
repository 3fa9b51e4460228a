// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/key_direction.cuh"
#include "kvevict/cuda/key_similarity.cuh"
#include "kvevict/cuda/row_norms.cuh"

namespace kvevict_test {

using namespace kvevict;

template <class T>
void row_norms_impl(MirrorResources& res, const RowsView<T>& rows, float scale,
                    ScoreView<> scores) {
  KVEVICT_MIRROR(row_norms, rows, scale, scores);
}

template <class T>
void mean_direction_impl(MirrorResources& res, const RowsView<T>& rows,
                         MatrixView<float> direction) {
  KVEVICT_MIRROR(mean_direction, rows, direction);
}

template <class T>
void cosine_impl(MirrorResources& res, const RowsView<T>& rows, MatrixView<const float> directions,
                 std::int64_t group, float scale, ScoreView<> scores) {
  KVEVICT_MIRROR(cosine, rows, directions, group, scale, scores);
}

template <class T>
void mean_similarity_impl(MirrorResources& res, const RowsView<T>& rows, float threshold,
                          ScoreView<> out) {
  KVEVICT_MIRROR(mean_similarity, rows, threshold, out);
}

#define KVEVICT_MIRROR_OPS(T)                                                                 \
  template void row_norms_impl(MirrorResources&, const RowsView<T>&, float, ScoreView<>);     \
  template void mean_direction_impl(MirrorResources&, const RowsView<T>&, MatrixView<float>); \
  template void cosine_impl(MirrorResources&, const RowsView<T>&, MatrixView<const float>,    \
                            std::int64_t, float, ScoreView<>);                                \
  template void mean_similarity_impl(MirrorResources&, const RowsView<T>&, float, ScoreView<>);

KVEVICT_MIRROR_ELEMENTS(KVEVICT_MIRROR_OPS)

#define KVEVICT_MIRROR_NORMS(T) \
  template void row_norms_impl(MirrorResources&, const RowsView<const T>&, float, ScoreView<>);

KVEVICT_MIRROR_QUANTISED(KVEVICT_MIRROR_NORMS)

void scale_norms_impl(MirrorResources& res, const KeyNorms<>& norms, float scale,
                      ScoreView<> scores) {
  KVEVICT_MIRROR(scale_norms, norms, scale, scores);
}

}  // namespace kvevict_test
