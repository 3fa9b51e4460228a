// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace kvevict_test {

// Counts every allocation of the program that links the target kvevict_allocation_counter: all
// forms of operator new, and the calls of malloc, calloc, realloc, aligned_alloc and
// posix_memalign made by the program's own translation units (header-only libraries such as Eigen
// included). What shared libraries allocate internally with malloc is not seen.
struct AllocationCount {
  std::int64_t allocations = 0;
  std::int64_t bytes = 0;
};

// Since the start of the program, all threads together.
AllocationCount allocation_count();

// What was allocated since the object was made.
class AllocationScope {
 public:
  AllocationScope() : start_(allocation_count()) {}
  AllocationCount count() const {
    const AllocationCount now = allocation_count();
    return {now.allocations - start_.allocations, now.bytes - start_.bytes};
  }

 private:
  AllocationCount start_;
};

}  // namespace kvevict_test
