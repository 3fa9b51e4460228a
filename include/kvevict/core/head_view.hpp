// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/config.hpp"
#include "kvevict/core/memory_space.hpp"
#include "kvevict/core/pages.hpp"
#include "kvevict/core/storage.hpp"
#include "kvevict/core/view.hpp"

namespace kvevict {

/// What a row of a head is to be multiplied by: 1, but for ScaledElements.
template <class T, MemorySpace S, bool Scaled = ScaledElement<std::remove_const_t<T>>>
struct HeadScales {
  KVEVICT_HOST_DEVICE static constexpr float of_row(std::int64_t) { return 1.0f; }
};

/// The rows of one head, [row][dim]: `row_stride` apart, or in pages, where the rows of each page
/// are `row_stride` apart. Code that reads rows asks for them, or for runs of them, and so need not
/// know which. Strides count Ts.
template <class T, MemorySpace S = MemorySpace::host>
struct HeadView {
  T* data = nullptr;  ///< of the first row, or of the head's first row in page 0 of the pool
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::int64_t row_stride = 0;
  std::int64_t channel_stride = 1;
  const std::int32_t* page_ids = nullptr;  ///< of the head's pages, in the order of the rows
  std::int64_t page_stride = 0;            ///< 0: not in pages
  PageRows page = {};
  HeadScales<T, S> scales = {};

  /// The rows of a matrix.
  KVEVICT_HOST_DEVICE static HeadView of(const MatrixView<T, S>& matrix) {
    HeadView head;
    head.data = matrix.data;
    head.rows = matrix.shape[0];
    head.dim = matrix.shape[1];
    head.row_stride = matrix.stride[0];
    head.channel_stride = matrix.stride[1];
    return head;
  }

  KVEVICT_HOST_DEVICE bool paged() const { return page_stride != 0; }

  /// Ts from `data` to channel 0 of a row.
  KVEVICT_HOST_DEVICE std::int64_t offset(std::int64_t i) const {
    if (!paged()) return i * row_stride;
    const std::int32_t p = page.page_of(i);
    const std::int32_t in_page = static_cast<std::int32_t>(i) - p * page.rows();
    return page_ids[p] * page_stride + in_page * row_stride;
  }

  /// Channel 0 of a row.
  KVEVICT_HOST_DEVICE T* row(std::int64_t i) const { return data + offset(i); }

  /// A channel as it is stored, where each has a T of its own.
  KVEVICT_HOST_DEVICE T& operator()(std::int64_t i, std::int64_t channel) const {
    return row(i)[channel * channel_stride];
  }

  /// What the channels of a row are to be multiplied by.
  KVEVICT_HOST_DEVICE float scale_of(std::int64_t i) const { return scales.of_row(i); }

  /// A channel as the number that it stands for, whatever the format.
  KVEVICT_HOST_DEVICE float value(std::int64_t i, std::int64_t channel) const {
    return scale_of(i) * channel_of<std::remove_const_t<T>>(row(i), channel, channel_stride);
  }

  /// Pages that hold rows; 0 if not in pages.
  KVEVICT_HOST_DEVICE std::int64_t pages() const {
    return !paged() || rows == 0 ? 0 : std::int64_t{page.page_of(rows - 1)} + 1;
  }

  /// How many of the `count` rows from `first` on lie `row_stride` apart: all, or those of a page.
  KVEVICT_HOST_DEVICE std::int64_t run(std::int64_t first, std::int64_t count) const {
    if (!paged()) return count;
    const std::int64_t left = (std::int64_t{page.page_of(first)} + 1) * page.rows() - first;
    return left < count ? left : count;
  }
};

/// One number for all rows of the head, or one for each, which is a row of one channel and has its
/// own place.
template <class T, MemorySpace S>
struct HeadScales<T, S, true> {
  float of_head = 1.0f;
  HeadView<ScaleOf<T>, S> of_rows = {};  ///< no rows: `of_head` is that of all

  KVEVICT_HOST_DEVICE float of_row(std::int64_t i) const {
    return of_rows.dim == 0 ? of_head : of_rows(i, 0);
  }
};

}  // namespace kvevict
