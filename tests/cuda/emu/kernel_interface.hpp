// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the device functions in a kernel call: implemented by the scheduler, which is compiled
// without sanitizers.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "source_site.hpp"

namespace kvevict_emulation {

/// The bits of a value of up to 64 bits on its way between the lanes of a warp.
using LaneBits = std::uint64_t;

enum class BarrierKind { plain, any, all, count };
enum class WarpOp {
  sync,
  shuffle,
  ballot,
  match,
  add,
  min_u,
  max_u,
  min_s,
  max_s,
  and_,
  or_,
  xor_
};

/// Waits until every thread of the block is here; returns the combined predicate.
int barrier(BarrierKind kind, bool predicate, SourceSite site);

/// Waits until every lane of `mask` is here with the same operation at the same place. `source` is
/// the lane a shuffle reads.
LaneBits warp_collective(WarpOp op, unsigned mask, int source, LaneBits value, SourceSite site);

/// The block's array that belongs to `key`, filled with 0xff when the first thread asks for it.
void* static_shared(const void* key, std::size_t bytes, std::size_t alignment);

/// The k-th call of every thread of a block returns the same array.
void* carve(std::size_t bytes, std::size_t alignment);

/// A place where another thread may run, if the settings want that.
void atomic_point();

/// Orders memory between threads that call it, as __threadfence does around an atomic operation.
void memory_fence();

/// Throws DeviceError: `what`, the kernel, block, thread and place.
[[noreturn]] void fail(const std::string& what, SourceSite site);

template <class T, class Tag>
T& shared() {
  static const char key = 0;
  return *static_cast<T*>(static_shared(&key, sizeof(T), alignof(T) < 16 ? 16 : alignof(T)));
}

template <class To, class From>
To bit_copy(From from) {
  static_assert(std::is_trivially_copyable_v<To> && std::is_trivially_copyable_v<From>);
  To to{};
  std::memcpy(&to, &from, sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
  return to;
}

}  // namespace kvevict_emulation
