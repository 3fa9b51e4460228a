// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace kvevict_test {

// Address space for arrays of many gigabytes of which a test touches a few pages: zeros until
// written, and no memory is used for what is never touched.
template <class T>
class FarMemory {
 public:
  explicit FarMemory(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("the address space cannot be reserved");
    data_ = static_cast<T*>(memory);
  }
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;
  ~FarMemory() { munmap(data_, bytes_); }

  T* data() { return data_; }

  // Offset of an element from the start, in elements.
  std::int64_t offset(const void* element) const {
    return (static_cast<const char*>(element) - reinterpret_cast<const char*>(data_)) /
           static_cast<std::int64_t>(sizeof(T));
  }

 private:
  std::size_t bytes_;
  T* data_ = nullptr;
};

}  // namespace kvevict_test
