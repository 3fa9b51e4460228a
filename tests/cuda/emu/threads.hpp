// SPDX-License-Identifier: Apache-2.0
#pragma once

// Built-in variables, barriers and fences. The names are CUDA's.
#include "kernel_interface.hpp"

// The scheduler rewrites them each time it resumes a thread.
inline constinit thread_local uint3 threadIdx{};
inline constinit thread_local uint3 blockIdx{};
inline constinit thread_local dim3 blockDim{};
inline constinit thread_local dim3 gridDim{};
inline constexpr int warpSize = 32;

inline void __syncthreads(
    kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  kvevict_emulation::barrier(kvevict_emulation::BarrierKind::plain, false, site);
}

inline int __syncthreads_or(
    int predicate, kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  return kvevict_emulation::barrier(kvevict_emulation::BarrierKind::any, predicate != 0, site);
}

inline int __syncthreads_and(
    int predicate, kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  return kvevict_emulation::barrier(kvevict_emulation::BarrierKind::all, predicate != 0, site);
}

inline int __syncthreads_count(
    int predicate, kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  return kvevict_emulation::barrier(kvevict_emulation::BarrierKind::count, predicate != 0, site);
}

inline void __threadfence() { kvevict_emulation::memory_fence(); }
inline void __threadfence_block() { kvevict_emulation::memory_fence(); }
