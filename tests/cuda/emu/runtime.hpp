// SPDX-License-Identifier: Apache-2.0
#pragma once

// Between whatever runs a kernel and the fake CUDA runtime. It knows nothing of how kernels are
// executed and includes no device functions.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace kvevict_emulation {

/// Runs `work` as the next work of `stream`: now, later (lazy streams), or as a node of the graph
/// that the stream captures, which replays it. Returns what the runtime's call returns.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

/// What a launch with these dimensions and this much dynamic shared memory returns.
cudaError_t check_launch(const void* kernel, dim3 grid, dim3 block, std::size_t dynamic_shared);

/// Most shared memory, in bytes, that a block of this kernel may have.
std::size_t shared_limit(const void* kernel);

/// Whether `bytes` from `address` on lie inside one device or pinned allocation.
bool is_device_range(const void* address, std::size_t bytes);

/// Throws DeviceError naming `what` unless is_device_range.
void require_device_range(const void* address, std::size_t bytes, const char* what);

/// Throws DeviceError unless a kernel's argument is null or points to device memory.
void check_pointer_argument(const void* address, const char* kernel, int position);

}  // namespace kvevict_emulation

/// How often the process has allocated device or pinned memory. In C, so that sources which are
/// also built for a GPU can ask whether it is there.
extern "C" unsigned long long kvevict_emulated_allocations();
