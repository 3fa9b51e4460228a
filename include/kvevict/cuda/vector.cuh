// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/cuda/compat.cuh"

namespace kvevict::cuda {

/// 16 aligned bytes of shared memory as numbers.
__device__ inline void load_vector(const float* from, float (&to)[4]) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}
__device__ inline void load_vector(const double* from, double (&to)[2]) {
  const double2 v = *reinterpret_cast<const double2*>(from);
  to[0] = v.x;
  to[1] = v.y;
}
__device__ inline void store_vector(const float (&from)[4], float* to) {
  *reinterpret_cast<float4*>(to) = float4{from[0], from[1], from[2], from[3]};
}
__device__ inline void store_vector(const double (&from)[2], double* to) {
  *reinterpret_cast<double2*>(to) = double2{from[0], from[1]};
}

}  // namespace kvevict::cuda
