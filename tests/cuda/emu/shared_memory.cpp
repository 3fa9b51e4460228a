// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "scheduler.hpp"

namespace kvevict_emulation {
namespace {

// Undefined at first, as on a device; 0xff bytes are NaN, -1 and indices that nobody has.
unsigned char* allocate_undefined(std::size_t bytes, std::size_t alignment) {
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)),
                     std::max<std::size_t>(bytes, 1)) != 0) {
    throw std::bad_alloc();
  }
  std::memset(memory, 0xff, bytes);
  return static_cast<unsigned char*>(memory);
}

}  // namespace

void* Scheduler::static_shared(const void* key, std::size_t bytes, std::size_t alignment) {
  void* memory = find_static_shared(key, bytes, alignment);
  sanitizer::acquire(block_start_);
  return memory;
}

void* Scheduler::find_static_shared(const void* key, std::size_t bytes, std::size_t alignment) {
  const AsHost scope(*this);
  for (const SharedArray& array : static_arrays_) {
    if (array.key == key) {
      return array.memory;
    }
  }
  static_arrays_.push_back({key, allocate_undefined(bytes, alignment), bytes});
  sanitizer::release(block_start_);
  return static_arrays_.back().memory;
}

void* Scheduler::carve(std::size_t bytes, std::size_t alignment) {
  void* memory = next_carved(bytes, alignment);
  sanitizer::acquire(block_start_);
  return memory;
}

void* Scheduler::next_carved(std::size_t bytes, std::size_t alignment) {
  const AsHost scope(*this);
  const std::size_t position = threads_[current_].carved++;
  if (position < carved_arrays_.size()) {
    const SharedArray& array = carved_arrays_[position];
    if (array.bytes != bytes) {
      throw DeviceError("threads disagree about dynamic shared memory: array " +
                        std::to_string(position) + " has " + std::to_string(array.bytes) + " and " +
                        std::to_string(bytes) + " bytes [" + whereabouts() + "]");
    }
    return array.memory;
  }
  carved_bytes_ = (carved_bytes_ + alignment - 1) / alignment * alignment + bytes;
  if (carved_bytes_ > grid_.dynamic_shared) {
    throw DeviceError("the kernel takes " + std::to_string(carved_bytes_) +
                      " bytes of dynamic shared memory, its launch gives " +
                      std::to_string(grid_.dynamic_shared) + " [" + whereabouts() + "]");
  }
  carved_arrays_.push_back({nullptr, allocate_undefined(bytes, alignment), bytes});
  sanitizer::release(block_start_);
  return carved_arrays_.back().memory;
}

// At the end of a block. The race detector must not see memory freed before the threads that used
// it are known to have ended, which is at the end of the grid.
void Scheduler::retire_shared() {
  for (auto* arrays : {&static_arrays_, &carved_arrays_}) {
    for (const SharedArray& array : *arrays) {
      retired_.push_back(array.memory);
    }
    arrays->clear();
  }
  carved_bytes_ = 0;
  if constexpr (!sanitizer::finds_races) {
    free_retired();
  }
}

void Scheduler::free_retired() {
  for (unsigned char* memory : retired_) {
    std::free(memory);
  }
  retired_.clear();
}

void* static_shared(const void* key, std::size_t bytes, std::size_t alignment) {
  if (Scheduler::running() == nullptr) {
    throw DeviceError("shared memory is used outside of a kernel");
  }
  return Scheduler::running()->static_shared(key, bytes, alignment);
}

void* carve(std::size_t bytes, std::size_t alignment) {
  if (Scheduler::running() == nullptr) {
    throw DeviceError("dynamic shared memory is used outside of a kernel");
  }
  return Scheduler::running()->carve(bytes, alignment);
}

}  // namespace kvevict_emulation
