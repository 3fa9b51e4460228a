// SPDX-License-Identifier: Apache-2.0
#include "allocation_counter.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

// The linker option --wrap=NAME sends calls of NAME to __wrap_NAME and gives the original as
// __real_NAME; CMakeLists.txt of this folder sets it for whoever links this file.
extern "C" {
void* __real_malloc(std::size_t size);
void* __real_calloc(std::size_t count, std::size_t size);
void* __real_realloc(void* old, std::size_t size);
void* __real_aligned_alloc(std::size_t alignment, std::size_t size);
int __real_posix_memalign(void** out, std::size_t alignment, std::size_t size);
}

namespace {

std::atomic<std::int64_t> allocations{0};
std::atomic<std::int64_t> bytes{0};

void count(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(static_cast<std::int64_t>(size), std::memory_order_relaxed);
}

void* allocate(std::size_t size) {
  count(size);
  return __real_malloc(size == 0 ? 1 : size);
}

void* allocate(std::size_t size, std::align_val_t alignment) {
  count(size);
  void* memory = nullptr;
  const auto align = static_cast<std::size_t>(alignment);
  const int status = __real_posix_memalign(&memory, align < sizeof(void*) ? sizeof(void*) : align,
                                           size == 0 ? 1 : size);
  return status == 0 ? memory : nullptr;
}

void* checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

extern "C" {
void* __wrap_malloc(std::size_t size) {
  count(size);
  return __real_malloc(size);
}
void* __wrap_calloc(std::size_t number, std::size_t size) {
  count(number * size);
  return __real_calloc(number, size);
}
void* __wrap_realloc(void* old, std::size_t size) {
  count(size);
  return __real_realloc(old, size);
}
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t size) {
  count(size);
  return __real_aligned_alloc(alignment, size);
}
int __wrap_posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  count(size);
  return __real_posix_memalign(out, alignment, size);
}
}

void* operator new(std::size_t size) { return checked(allocate(size)); }
void* operator new[](std::size_t size) { return checked(allocate(size)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t align) {
  return checked(allocate(size, align));
}
void* operator new[](std::size_t size, std::align_val_t align) {
  return checked(allocate(size, align));
}
void* operator new(std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {
  return allocate(size, align);
}
void* operator new[](std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {
  return allocate(size, align);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace kvevict_test {

AllocationCount allocation_count() {
  return {allocations.load(std::memory_order_relaxed), bytes.load(std::memory_order_relaxed)};
}

}  // namespace kvevict_test
