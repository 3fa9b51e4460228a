// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/capacity.cuh"
#include "kvevict/cuda/centred_leverage.cuh"

namespace kvevict_test {

using namespace kvevict;

template <class T>
void weighted_gram_impl(MirrorResources& res, const RowsView<T>& values, ScoreView<> root_weights,
                        std::int64_t group, MatrixBatchView<double> gram) {
  KVEVICT_MIRROR(weighted_gram, values, root_weights, group, gram);
}

void inverse_factor_impl(MirrorResources& res, MatrixBatchView<const double> gram,
                         MatrixBatchView<const float> transforms, Noise noise,
                         MatrixBatchView<float> factors) {
  KVEVICT_MIRROR(inverse_factor, gram, transforms, noise, factors);
}

template <class T>
void leverage_scores_impl(MirrorResources& res, const RowsView<T>& values,
                          MatrixBatchView<const float> factors, std::int64_t group,
                          ScoreView<> root_weights, ScoreView<> scores) {
  KVEVICT_MIRROR(leverage_scores, values, factors, group, root_weights, scores);
}

template <class T>
void capacity_scores_impl(MirrorResources& res, const RowsView<T>& values, ScoreView<> gram_roots,
                          MatrixBatchView<const float> transforms, Noise noise, std::int64_t group,
                          ScoreView<> leverage_roots, ScoreView<> scores) {
  KVEVICT_MIRROR(capacity_scores, values, gram_roots, transforms, noise, group, leverage_roots,
                 scores);
}

template <class T>
void centred_leverage_impl(MirrorResources& res, const RowsView<T>& rows,
                           MatrixBatchView<const float> transforms, const RowRange& range,
                           Noise noise, ScoreView<> scores) {
  KVEVICT_MIRROR(centred_leverage, rows, transforms, range, noise, scores);
}

void gaussian_sketch_impl(MirrorResources& res, std::uint64_t seed, std::int64_t width,
                          MatrixView<float> sketch) {
  KVEVICT_MIRROR(gaussian_sketch, seed, width, sketch);
}

#define KVEVICT_MIRROR_OPS(T)                                                                 \
  template void weighted_gram_impl(MirrorResources&, const RowsView<T>&, ScoreView<>,         \
                                   std::int64_t, MatrixBatchView<double>);                    \
  template void leverage_scores_impl(MirrorResources&, const RowsView<T>&,                    \
                                     MatrixBatchView<const float>, std::int64_t, ScoreView<>, \
                                     ScoreView<>);                                            \
  template void capacity_scores_impl(MirrorResources&, const RowsView<T>&, ScoreView<>,       \
                                     MatrixBatchView<const float>, Noise, std::int64_t,       \
                                     ScoreView<>, ScoreView<>);                               \
  template void centred_leverage_impl(MirrorResources&, const RowsView<T>&,                   \
                                      MatrixBatchView<const float>, const RowRange&, Noise,   \
                                      ScoreView<>);

KVEVICT_MIRROR_ELEMENTS(KVEVICT_MIRROR_OPS)

}  // namespace kvevict_test
