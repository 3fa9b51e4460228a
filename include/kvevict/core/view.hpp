// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/config.hpp"
#include "kvevict/core/memory_space.hpp"

namespace kvevict {

/// Non-owning strided array of `Rank` dimensions in memory space `S`. Shapes and strides are 64-bit
/// and count elements of T; nothing is checked here, the fronts of the ops do that. Trivially
/// copyable, so kernels take it by value. A view of T converts to a view of const T, never to
/// another memory space.
template <class T, int Rank, MemorySpace S = MemorySpace::host>
struct StridedView {
  static constexpr MemorySpace space = S;
  using element_type = T;

  T* data = nullptr;
  std::int64_t shape[Rank] = {};
  std::int64_t stride[Rank] = {};

  /// Row-major view of densely packed memory.
  template <class... Extent>
  requires(sizeof...(Extent) == Rank) KVEVICT_HOST_DEVICE static constexpr StridedView
      packed(T* data, Extent... extent) {
    StridedView view;
    view.data = data;
    const std::int64_t extents[Rank] = {static_cast<std::int64_t>(extent)...};
    std::int64_t step = 1;
    for (int d = Rank - 1; d >= 0; --d) {
      view.shape[d] = extents[d];
      view.stride[d] = step;
      step *= extents[d];
    }
    return view;
  }

  template <class... Index>
  requires(sizeof...(Index) == Rank) KVEVICT_HOST_DEVICE constexpr T& operator()(
      Index... index) const {
    const std::int64_t indices[Rank] = {static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (int d = 0; d < Rank; ++d) offset += indices[d] * stride[d];
    return data[offset];
  }

  KVEVICT_HOST_DEVICE constexpr bool empty() const { return data == nullptr; }

  KVEVICT_HOST_DEVICE constexpr std::int64_t size() const {
    std::int64_t count = 1;
    for (int d = 0; d < Rank; ++d) count *= shape[d];
    return count;
  }

  /// A template, since a type that would convert to itself is warned of.
  template <class U>
  requires(!std::is_same_v<T, U> && std::is_same_v<U, const T>) KVEVICT_HOST_DEVICE constexpr
  operator StridedView<U, Rank, S>() const {
    StridedView<U, Rank, S> view;
    view.data = data;
    for (int d = 0; d < Rank; ++d) {
      view.shape[d] = shape[d];
      view.stride[d] = stride[d];
    }
    return view;
  }
};

/// [row][column]
template <class T, MemorySpace S = MemorySpace::host>
using MatrixView = StridedView<T, 2, S>;

/// [head][row][column]
template <class T, MemorySpace S = MemorySpace::host>
using MatrixBatchView = StridedView<T, 3, S>;

}  // namespace kvevict
