// SPDX-License-Identifier: Apache-2.0
// Memory and copies of the fake CUDA runtime.
#include <cstring>
#include <string>
#include <vector>

#include "device.hpp"

using kvevict_emulation::Device;
using kvevict_emulation::device;
using kvevict_emulation::DeviceError;
using kvevict_emulation::enqueue;
using kvevict_emulation::report;
using kvevict_emulation::Stream;

namespace {

cudaError_t allocate(void** address, std::size_t bytes, bool pinned) {
  const std::lock_guard lock(device().mutex);
  if (const cudaError_t error = device().refuse_if_capturing(); error != cudaSuccess) {
    return report(error);
  }
  return report(device().memory.allocate(address, bytes, pinned));
}

// Waits for the device, as cudaFree does.
cudaError_t release(void* address, bool pinned) {
  const std::lock_guard lock(device().mutex);
  if (address == nullptr) {
    return cudaSuccess;
  }
  if (const cudaError_t error = device().refuse_if_capturing(); error != cudaSuccess) {
    return report(error);
  }
  device().drain_all();
  return report(device().memory.release(address, pinned));
}

// A range must lie inside the allocation it begins in; device memory must be where `device_side`
// says, and nowhere else.
bool is_range(const void* address, std::size_t bytes, bool device_side, bool any_side) {
  const auto place = device().memory.find(address);
  const bool is_device = place.base != nullptr && !place.pinned;
  if (!any_side && is_device != device_side) {
    return false;
  }
  return place.base == nullptr || kvevict_emulation::is_device_range(address, bytes);
}

cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const bool any = kind == cudaMemcpyDefault;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool fits = bytes == 0 || (is_range(to, bytes, to_device, any) &&
                                   is_range(from, bytes, from_device, any));
  return fits ? cudaSuccess : cudaErrorInvalidValue;
}

bool is_pageable(const void* address) { return device().memory.find(address).base == nullptr; }

// During a capture the copy would read or write memory that nobody holds at the replay.
bool needs_host_at_replay(cudaStream_t stream, const void* to, const void* from) {
  const Stream found = device().find_stream(stream);
  return found && found->capture && (is_pageable(to) || is_pageable(from));
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream) {
  if (const cudaError_t error = check_copy(to, from, bytes, kind); error != cudaSuccess) {
    return report(error);
  }
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (needs_host_at_replay(stream, to, from)) {
    device().find_stream(stream)->capture->invalidated = true;
    return report(cudaErrorStreamCaptureUnsupported);
  }
  if (is_pageable(from)) {
    // Pageable memory is read before the call returns.
    const char* begin = static_cast<const char*>(from);
    std::vector<char> staged(begin, begin + bytes);
    return enqueue(stream, [to, staged = std::move(staged)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  }
  return enqueue(stream, [=] { std::memmove(to, from, bytes); });
}

cudaError_t set(void* address, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (!kvevict_emulation::is_device_range(address, bytes)) {
    return report(cudaErrorInvalidValue);
  }
  return enqueue(stream, [=] { std::memset(address, value, bytes); });
}

}  // namespace

extern "C" {

unsigned long long kvevict_emulated_allocations() {
  const std::lock_guard lock(device().mutex);
  return device().memory.allocated();
}

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return allocate(address, bytes, false);
}

cudaError_t cudaFree(void* address) { return release(address, false); }

cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return allocate(address, bytes, true);
}

cudaError_t cudaFreeHost(void* address) { return release(address, true); }

cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  const Stream found = device().find_stream(stream);
  if (!found) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (found->capture) {  // a device would make the memory a part of the graph
    return report(cudaErrorNotSupported);
  }
  return report(device().memory.allocate(address, bytes, false));
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  if (address == nullptr) {
    return cudaSuccess;
  }
  const Stream found = device().find_stream(stream);
  if (!found) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (found->capture) {
    return report(cudaErrorNotSupported);
  }
  if (device().memory.find(address).base != address) {
    return report(cudaErrorInvalidValue);
  }
  return enqueue(stream, [address] {
    if (device().memory.release(address, false) != cudaSuccess) {
      throw DeviceError("cudaFreeAsync: the memory has been freed already");
    }
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  return copy(to, from, bytes, kind, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const std::lock_guard lock(device().mutex);
  if (const cudaError_t error = copy(to, from, bytes, kind, nullptr); error != cudaSuccess) {
    return error;
  }
  device().drain(device().default_stream());
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  return set(address, value, bytes, stream);
}

cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  return set(address, value, bytes, nullptr);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const std::lock_guard lock(device().mutex);
  if (attributes == nullptr) {
    return report(cudaErrorInvalidValue);
  }
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -2;
  if (kvevict_emulation::is_device_range(address, 1)) {
    const bool pinned = device().memory.find(address).pinned;
    attributes->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->device = 0;
    attributes->devicePointer = const_cast<void*>(address);
    attributes->hostPointer = pinned ? const_cast<void*>(address) : nullptr;
  }
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const std::lock_guard lock(device().mutex);
  *total_bytes = kvevict_emulation::settings().limits.global_memory;
  *free_bytes = *total_bytes - device().memory.used();
  return cudaSuccess;
}

}  // extern "C"
