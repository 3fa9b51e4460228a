// SPDX-License-Identifier: Apache-2.0
//
// Defects that check.sh must find, one for each name that it defines.
#include "kvevict/cuda/compat.cuh"

namespace {

#if defined(KVEVICT_SEED_SPILL)
// Far more values at a time than the registers that a block of this size leaves each thread.
__global__ void __launch_bounds__(1024) seeded(float* values) {
  float held[192];
  KVEVICT_UNROLL
  for (int i = 0; i < 192; ++i) held[i] = values[i * 1024 + static_cast<int>(threadIdx.x)];
  __syncthreads();
  KVEVICT_UNROLL
  for (int i = 0; i < 192; ++i) values[i * 1024 + static_cast<int>(threadIdx.x)] = held[191 - i];
}
#elif defined(KVEVICT_SEED_UNUSED)
__global__ void __launch_bounds__(32) seeded(float* values) {
  const int unused = static_cast<int>(threadIdx.x);
  values[0] = 0.0f;
}
#elif defined(KVEVICT_SEED_PLAIN_SHARED)
__global__ void __launch_bounds__(32) seeded(float* values) {
  __shared__ float first[32];
  first[threadIdx.x] = values[threadIdx.x];
}
#elif defined(KVEVICT_SEED_SHADOW)
__global__ void __launch_bounds__(32) seeded(float* values) {
  for (int i = 0; i < 2; ++i) {
    for (int i = 0; i < 2; ++i) values[i] = 0.0f;
  }
}
#else
#error "no such defect"
#endif

}  // namespace

void use(float* values) {
#if !defined(KVEVICT_CUDA_EMULATION)
  seeded<<<1, 32>>>(values);
#else
  seeded(values);
#endif
}
