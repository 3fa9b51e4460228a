// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kvevict/core/memory_space.hpp"

namespace kvevict {

/// Numbers in one memory space, owned: what evidence that outlives a call is kept in. Each backend
/// specialises it for its space, with one interface; `res` are resources of that space.
///
///   resize(res, count)        keeps the contents; new elements have no particular value
///   fill_zero(res)            all elements
///   assign(res, from, count)  resizes to a copy of a small array in host memory
///   download(res)             a copy in host memory; waits for a device
///   data(), size()
///
/// An array in host memory can be copied. One in device memory can only be moved, and belongs to
/// the stream of the resources that it was last resized with.
template <class T, MemorySpace S = MemorySpace::host>
class Array;

template <class T>
class Array<T, MemorySpace::host> {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  std::int64_t size() const { return static_cast<std::int64_t>(values_.size()); }

  template <class R>
  requires(R::space == MemorySpace::host) void resize(R&, std::int64_t count) {
    values_.resize(static_cast<std::size_t>(count));
  }
  template <class R>
  requires(R::space == MemorySpace::host) void fill_zero(R&) {
    std::fill(values_.begin(), values_.end(), T{});
  }
  template <class R>
  requires(R::space == MemorySpace::host) void assign(R&, const T* from, std::int64_t count) {
    values_.assign(from, from + count);
  }
  template <class R>
  requires(R::space == MemorySpace::host) std::vector<T> download(R&)
  const { return values_; }

 private:
  std::vector<T> values_;
};

}  // namespace kvevict
