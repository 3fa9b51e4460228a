// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "device.hpp"
#include "sanitizer.hpp"

namespace kvevict_emulation {

DeviceMemory::Place DeviceMemory::find(const void* address) const {
  char* const place = static_cast<char*>(const_cast<void*>(address));
  auto next = allocations_.upper_bound(place);
  if (next == allocations_.begin()) {
    return {};
  }
  const auto& [base, allocation] = *--next;
  if (place >= base + allocation.bytes) {
    return {};
  }
  return {base, allocation.bytes, allocation.pinned};
}

cudaError_t DeviceMemory::allocate(void** address, std::size_t bytes, bool pinned) {
  if (address == nullptr) {
    return cudaErrorInvalidValue;
  }
  *address = nullptr;
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (!pinned && bytes > settings().limits.global_memory - used_) {
    return cudaErrorMemoryAllocation;
  }
  constexpr std::size_t alignment = 256;  // as cudaMalloc's
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) {
    return cudaErrorMemoryAllocation;
  }
  std::memset(memory, 0xff, bytes);
  allocations_[static_cast<char*>(memory)] = {bytes, pinned};
  ++allocated_;
  if (!pinned) {
    used_ += bytes;
    if (open_ == 0) {
      sanitizer::poison(memory, bytes);
    }
  }
  *address = memory;
  return cudaSuccess;
}

cudaError_t DeviceMemory::release(void* address, bool pinned) {
  if (address == nullptr) {
    return cudaSuccess;
  }
  const auto found = allocations_.find(static_cast<char*>(address));
  if (found == allocations_.end() || found->second.pinned != pinned) {
    return cudaErrorInvalidValue;
  }
  const std::size_t bytes = found->second.bytes;
  used_ -= pinned ? 0 : bytes;
  allocations_.erase(found);
  sanitizer::unpoison(address, bytes);
  std::memset(address, 0xff, bytes);
  sanitizer::poison(address, bytes);
  released_.emplace_back(static_cast<char*>(address), bytes);
  released_bytes_ += bytes;
  constexpr std::size_t most_released = std::size_t{32} << 20;
  while (released_bytes_ > most_released) {
    const auto [oldest, oldest_bytes] = released_.front();
    released_.pop_front();
    released_bytes_ -= oldest_bytes;
    sanitizer::unpoison(oldest, oldest_bytes);
    std::free(oldest);
  }
  return cudaSuccess;
}

void DeviceMemory::open() {
  if (open_++ == 0) {
    for (const auto& [base, allocation] : allocations_) {
      sanitizer::unpoison(base, allocation.bytes);
    }
  }
}

void DeviceMemory::close() {
  if (--open_ == 0) {
    for (const auto& [base, allocation] : allocations_) {
      if (!allocation.pinned) {
        sanitizer::poison(base, allocation.bytes);
      }
    }
  }
}

bool is_device_range(const void* address, std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  const DeviceMemory::Place place = device().memory.find(address);
  if (place.base == nullptr) {
    // The end of an allocation is where an empty part of it may begin.
    return bytes == 0 && address != nullptr &&
           device().memory.find(static_cast<const char*>(address) - 1).base != nullptr;
  }
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - place.base);
  return bytes <= place.bytes - offset;
}

void require_device_range(const void* address, std::size_t bytes, const char* what) {
  if (bytes == 0 || is_device_range(address, bytes)) {
    return;
  }
  const bool begins_inside = is_device_range(address, 0);
  throw DeviceError(std::string(what) + (begins_inside
                                             ? ": runs past the end of its device allocation"
                                             : ": is not device memory"));
}

void check_pointer_argument(const void* address, const char* kernel, int position) {
  if (address != nullptr && !is_device_range(address, 0)) {
    throw DeviceError(std::string(kernel) + ": argument " + std::to_string(position) +
                      " is not device memory");
  }
}

}  // namespace kvevict_emulation
