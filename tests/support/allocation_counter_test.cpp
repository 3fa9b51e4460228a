// SPDX-License-Identifier: Apache-2.0
#include "support/allocation_counter.hpp"

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "catch.hpp"

using namespace kvevict_test;

namespace {

// Volatile, so that no compiler may drop a pair of allocation and release.
void* volatile keep = nullptr;

struct alignas(64) Wide {
  char bytes[64];
};

}  // namespace

TEST_CASE("operator new is counted in all its forms") {
  const AllocationScope scope;
  const std::vector<int> vector(10);
  keep = const_cast<int*>(vector.data());
  const auto single = std::make_unique<Wide>();
  keep = single.get();
  const auto array = std::make_unique<double[]>(3);
  keep = array.get();
  auto* const quiet = new (std::nothrow) long;
  keep = quiet;
  delete quiet;
  const AllocationCount count = scope.count();
  CHECK(count.allocations == 4);
  CHECK(count.bytes == 40 + 64 + 24 + static_cast<long>(sizeof(long)));
  CHECK(reinterpret_cast<std::uintptr_t>(single.get()) % 64 == 0);
}

TEST_CASE("malloc and its relatives are counted") {
  const AllocationScope scope;
  void* memory = std::malloc(10);
  keep = memory;
  memory = std::realloc(memory, 20);
  keep = memory;
  std::free(memory);
  memory = std::calloc(2, 8);
  keep = memory;
  std::free(memory);
  memory = std::aligned_alloc(64, 64);
  keep = memory;
  std::free(memory);
  const AllocationCount count = scope.count();
  CHECK(count.allocations == 4);
  CHECK(count.bytes == 10 + 20 + 16 + 64);
}

TEST_CASE("code without allocations counts zero") {
  std::vector<double> values(100, 1.5);
  const AllocationScope scope;
  double sum = 0;
  for (const double value : values) sum += value;
  keep = &sum;
  const AllocationCount count = scope.count();
  CHECK(count.allocations == 0);
  CHECK(count.bytes == 0);
}
