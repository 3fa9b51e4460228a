// SPDX-License-Identifier: Apache-2.0
#pragma once

// CUDA for a host compiler: force-included before the library's .cuh files, it lets g++ or clang++
// compile kernels as C++ and runs them on the CPU, each CUDA thread on a stack of its own. It finds
// what a device only punishes: races (with ThreadSanitizer), indices out of range (with
// AddressSanitizer), misused barriers and warp operations, unwritten shared memory, pointers to the
// wrong memory. README.md says how to build and run something under it.
#ifdef __CUDACC__
#error "the emulator is for host compilers"
#endif
#define KVEVICT_CUDA_EMULATION 1

// Must precede CUDA's headers, which define these only where nobody else did.
#define __launch_bounds__(...)
#define __shared__ KVEVICT_SHARED_is_the_way_to_declare_shared_memory
#include <cuda_runtime.h>

#include "atomics.hpp"
#include "intrinsics.hpp"
#include "launch.hpp"
#include "settings.hpp"
#include "threads.hpp"
#include "warp.hpp"
