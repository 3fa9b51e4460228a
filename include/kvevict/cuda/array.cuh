// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kvevict/core/array.hpp"
#include "kvevict/cuda/resources.cuh"

namespace kvevict {

/// Numbers in device memory, owned: everything happens in the order of the resources' stream, and
/// nothing waits. Growing allocates, and at least doubles what is there.
template <class T>
class Array<T, MemorySpace::device> {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  std::int64_t size() const { return values_.size(); }

  template <class R>
  requires(R::space == MemorySpace::device) void resize(R& res, std::int64_t count) {
    values_.resize(res.stream(), count);
  }
  template <class R>
  requires(R::space == MemorySpace::device) void fill_zero(R& res) {
    if (size() == 0) return;
    cuda::require_success(
        cudaMemsetAsync(values_.data(), 0, static_cast<std::size_t>(size()) * sizeof(T),
                        res.stream()),
        "cudaMemsetAsync");
  }
  /// `from` may change as soon as the call returns.
  template <class R>
  requires(R::space == MemorySpace::device) void assign(R& res, const T* from, std::int64_t count) {
    resize(res, count);
    cuda::upload(res.stream(), from, count, values_.data());
  }
  /// Waits for the stream.
  template <class R>
  requires(R::space == MemorySpace::device) std::vector<T> download(R& res)
  const {
    std::vector<T> values(static_cast<std::size_t>(size()));
    if (size() > 0) {
      cuda::require_success(
          cudaMemcpyAsync(values.data(), values_.data(), values.size() * sizeof(T),
                          cudaMemcpyDeviceToHost, res.stream()),
          "cudaMemcpyAsync");
    }
    res.wait();
    return values;
  }

 private:
  cuda::DeviceArray<T> values_;
};

}  // namespace kvevict
