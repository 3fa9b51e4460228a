// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/workspace.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"

using kvevict::ErrorKind;
using kvevict::MemorySource;
using kvevict::Workspace;
using kvevict::WorkspaceScope;
using kvevict_test::refused;

namespace {

bool aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kvevict::workspace_alignment == 0;
}

// Counts what a workspace asks of a source, and refuses blocks above a limit.
struct CountingSource {
  int allocations = 0;
  int releases = 0;
  std::size_t largest = 0;
  std::size_t limit = SIZE_MAX;

  MemorySource source() { return {allocate, release, this}; }

  static void* allocate(void* context, std::size_t bytes) noexcept {
    auto& self = *static_cast<CountingSource*>(context);
    if (bytes > self.limit) return nullptr;
    ++self.allocations;
    self.largest = std::max(self.largest, bytes);
    const MemorySource heap = MemorySource::heap();
    return heap.allocate(heap.context, bytes);
  }
  static void release(void* context, void* block) noexcept {
    ++static_cast<CountingSource*>(context)->releases;
    const MemorySource heap = MemorySource::heap();
    heap.release(heap.context, block);
  }
};

}  // namespace

TEST_CASE("carves are aligned, disjoint and usable", "[core][workspace]") {
  Workspace workspace;
  // The first pass grows, the second runs in one block: both must give real memory.
  for (int pass = 0; pass < 2; ++pass) {
    WorkspaceScope scope(workspace);
    std::vector<std::pair<unsigned char*, std::int64_t>> carves;
    for (const std::int64_t bytes : {1, 255, 256, 257, 10000, 0, 3}) {
      auto* memory = scope.carve<unsigned char>("bytes", bytes);
      REQUIRE(aligned(memory));
      std::fill_n(memory, bytes, static_cast<unsigned char>(carves.size()));
      carves.push_back({memory, bytes});
    }
    for (std::size_t i = 0; i < carves.size(); ++i) {
      for (std::int64_t b = 0; b < carves[i].second; ++b) {
        REQUIRE(carves[i].first[b] == static_cast<unsigned char>(i));
      }
    }
  }
}

TEST_CASE("scopes nest and give their carves back", "[core][workspace]") {
  Workspace workspace;
  for (int pass = 0; pass < 3; ++pass) {
    WorkspaceScope outer(workspace);
    int* kept = outer.carve<int>("outer", 10);
    kept[9] = 42;
    int* first = nullptr;
    {
      WorkspaceScope inner(workspace);
      first = inner.carve<int>("inner", 100);
      first[99] = 1;
      {
        WorkspaceScope innermost(workspace);
        innermost.carve<int>("innermost", 1000)[999] = 2;
      }
      REQUIRE(first[99] == 1);
    }
    {
      WorkspaceScope again(workspace);
      int* second = again.carve<int>("inner", 100);
      // Once grown, the place that the first inner scope gave back is used again.
      if (pass > 0) REQUIRE(second == first);
    }
    REQUIRE(kept[9] == 42);
  }
  // 40 bytes and 400 bytes take one and two units of 256, 4,000 bytes sixteen.
  REQUIRE(workspace.peak_bytes() == 256 * (1 + 2 + 16));
}

TEST_CASE("after one pass a workspace serves from one block", "[core][workspace]") {
  Workspace workspace;
  const auto pass = [&] {
    WorkspaceScope scope(workspace);
    std::byte* a = scope.carve<std::byte>("a", 1000);
    std::byte* b = scope.carve<std::byte>("b", 50000);
    return std::pair(a, b);
  };
  pass();
  const auto [a, b] = pass();
  REQUIRE(b - a == 1024);
  const auto [a_again, b_again] = pass();
  REQUIRE(a_again == a);
  REQUIRE(b_again == b);
  REQUIRE(workspace.peak_bytes() == 1024 + 50176);
}

TEST_CASE("a larger pass grows the block, a smaller one keeps it", "[core][workspace]") {
  Workspace workspace;
  const auto carve = [&](std::int64_t bytes) {
    WorkspaceScope scope(workspace);
    std::byte* memory = scope.carve<std::byte>("memory", bytes);
    if (bytes > 0) memory[bytes - 1] = std::byte{1};
    return memory;
  };
  carve(100);
  carve(100000);
  const std::byte* large = carve(100000);
  REQUIRE(carve(10) == large);
  REQUIRE(carve(100000) == large);
}

TEST_CASE("a borrowed buffer is never left", "[core][workspace]") {
  alignas(256) std::byte buffer[2048];
  for (const std::ptrdiff_t shift : {0, 1, 8, 255}) {
    Workspace workspace(buffer + shift, sizeof(buffer) - static_cast<std::size_t>(shift));
    WorkspaceScope scope(workspace);
    const std::byte* a = scope.carve<std::byte>("a", 300);
    const std::byte* b = scope.carve<std::byte>("b", 1);
    REQUIRE(aligned(a));
    REQUIRE(aligned(b));
    REQUIRE(a >= buffer + shift);
    REQUIRE(b >= a + 300);
    REQUIRE(b < buffer + sizeof(buffer));
  }
}

TEST_CASE("a borrowed buffer that is too small names carve and bytes", "[core][workspace]") {
  alignas(256) std::byte buffer[1024];
  Workspace workspace(buffer, sizeof(buffer));
  WorkspaceScope scope(workspace);
  scope.carve<float>("first", 64);
  REQUIRE(refused([&] { scope.carve<float>("second.tiles", 256); }, ErrorKind::backend) ==
          "workspace.second.tiles is 1024 bytes, must be at least 1280");
  // What is left can still be carved.
  REQUIRE_NOTHROW(scope.carve<float>("third", 192));
}

TEST_CASE("an unaligned buffer needs up to 255 bytes more", "[core][workspace]") {
  alignas(256) std::byte buffer[1024];
  Workspace workspace(buffer + 1, 1023);
  WorkspaceScope scope(workspace);
  REQUIRE_NOTHROW(scope.carve<std::byte>("fits", 768));
  Workspace shorter(buffer + 1, 1022);
  WorkspaceScope other(shorter);
  REQUIRE(refused([&] { other.carve<std::byte>("a", 768); }, ErrorKind::backend) ==
          "workspace.a is 1022 bytes, must be at least 1023");
}

TEST_CASE("counting records the peak and touches nothing", "[core][workspace]") {
  Workspace workspace = Workspace::counter();
  REQUIRE(workspace.counting());
  REQUIRE_FALSE(Workspace().counting());
  {
    WorkspaceScope outer(workspace);
    // Far more than there is: only counted.
    REQUIRE(outer.carve<double>("huge", std::int64_t{1} << 50) != nullptr);
    {
      WorkspaceScope inner(workspace);
      inner.carve<char>("small", 1);
    }
    WorkspaceScope other(workspace);
    other.carve<char>("small", 257);
  }
  REQUIRE(workspace.peak_bytes() == (std::int64_t{1} << 53) + 512);
}

TEST_CASE("counts that no memory can hold are refused", "[core][workspace]") {
  for (const bool counting : {false, true}) {
    Workspace workspace = counting ? Workspace::counter() : Workspace();
    WorkspaceScope scope(workspace);
    REQUIRE(refused([&] { scope.carve<float>("tiles", -1); }, ErrorKind::backend) ==
            "workspace.tiles is -1 elements, must be an addressable number of them");
    // 2^62 floats are 2^64 bytes, which must not wrap to a small number.
    REQUIRE(
        refused([&] { scope.carve<float>("tiles", std::int64_t{1} << 62); }, ErrorKind::backend) ==
        "workspace.tiles is 4611686018427387904 elements, must be an addressable number of them");
    REQUIRE_NOTHROW(scope.carve<float>("tiles", 4));
  }
}

TEST_CASE("a workspace takes its blocks from its source and gives all of them back",
          "[core][workspace]") {
  CountingSource counts;
  {
    Workspace workspace(counts.source());
    REQUIRE(counts.allocations == 0);
    const auto pass = [&] {
      WorkspaceScope scope(workspace);
      scope.carve<std::byte>("a", 1000)[999] = std::byte{1};
      scope.carve<std::byte>("b", 500)[499] = std::byte{1};
    };
    pass();
    // One block for each carve, then one for both.
    REQUIRE(counts.allocations == 3);
    REQUIRE(counts.releases == 2);
    REQUIRE(counts.largest == 1024 + 512);
    pass();
    REQUIRE(counts.allocations == 3);
    // Moving a workspace moves its blocks.
    Workspace moved = std::move(workspace);
    workspace = Workspace(counts.source());
    REQUIRE(counts.releases == 2);
  }
  REQUIRE(counts.releases == counts.allocations);
}

TEST_CASE("a source without memory is a typed error, and the next pass works",
          "[core][workspace]") {
  CountingSource counts;
  counts.limit = 2048;
  {
    Workspace workspace(counts.source());
    {
      WorkspaceScope scope(workspace);
      scope.carve<std::byte>("fits", 2048);
      REQUIRE(refused([&] { scope.carve<std::byte>("too large", 2049); }, ErrorKind::backend) ==
              "workspace.too large is 2304 bytes, must be available memory");
      scope.carve<std::byte>("fits too", 2048);
    }
    // The one block of the peak size was refused: carves come one by one again.
    WorkspaceScope scope(workspace);
    scope.carve<std::byte>("fits", 2048)[2047] = std::byte{1};
    scope.carve<std::byte>("fits too", 2048)[2047] = std::byte{1};
    REQUIRE(counts.allocations == 4);
  }
  REQUIRE(counts.releases == counts.allocations);
}

TEST_CASE("a carve of nothing asks the source for nothing", "[core][workspace]") {
  CountingSource counts;
  Workspace workspace(counts.source());
  {
    WorkspaceScope scope(workspace);
    scope.carve<float>("none", 0);
  }
  REQUIRE(counts.allocations == 0);
  REQUIRE(workspace.peak_bytes() == 0);
}

TEST_CASE("neither a counter nor a borrowed buffer asks a source", "[core][workspace]") {
  alignas(256) std::byte buffer[512];
  Workspace borrowed(buffer, sizeof(buffer));
  Workspace counter = Workspace::counter();
  for (Workspace* workspace : {&borrowed, &counter}) {
    WorkspaceScope scope(*workspace);
    REQUIRE(scope.carve<std::byte>("a", 512) != nullptr);
  }
  REQUIRE(borrowed.peak_bytes() == 512);
  REQUIRE(counter.peak_bytes() == 512);
}

// AddressSanitizer ends the program where the system refuses memory.
#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("memory that the system refuses is a typed error and harms nothing",
          "[core][workspace]") {
  Workspace workspace;
  {
    WorkspaceScope scope(workspace);
    scope.carve<float>("modest", 1000)[999] = 1;
    try {
      scope.carve<float>("enormous", std::int64_t{1} << 58);
      FAIL("there is no such memory");
    } catch (const kvevict::Error& error) {
      REQUIRE(error.kind() == ErrorKind::backend);
      REQUIRE(error.argument() == "workspace.enormous");
    }
  }
  WorkspaceScope scope(workspace);
  scope.carve<float>("modest", 1000)[999] = 1;
}
#endif
