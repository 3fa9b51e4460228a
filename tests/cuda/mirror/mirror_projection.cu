// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/projection_factor.cuh"

namespace kvevict_test {

using namespace kvevict;

template <class T>
void projection_factors_impl(MirrorResources& res, MatrixView<T> w_o,
                             MatrixBatchView<float> factors) {
  KVEVICT_MIRROR(projection_factors, w_o, factors);
}

#define KVEVICT_MIRROR_OPS(T) \
  template void projection_factors_impl(MirrorResources&, MatrixView<T>, MatrixBatchView<float>);

KVEVICT_MIRROR_ELEMENTS(KVEVICT_MIRROR_OPS)

void stack_factors_impl(MirrorResources& res, MatrixBatchView<const float> factors,
                        std::int64_t group, MatrixBatchView<float> out) {
  KVEVICT_MIRROR(stack_factors, factors, group, out);
}

}  // namespace kvevict_test
