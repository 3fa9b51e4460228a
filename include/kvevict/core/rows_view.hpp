// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/element.hpp"
#include "kvevict/core/row_layout.hpp"
#include "kvevict/core/view.hpp"

namespace kvevict {

/// The rows of all heads of one tensor (keys, or values), each head a strided matrix [row][dim].
/// Three ways to find a head's first element, each with 64-bit strides in elements:
/// * `strided`: base + head * head_stride (contiguous tensors, any axis order),
/// * `packed`: base + layout.offset(head) * row_stride (all heads one after another, CSR),
/// * `per_head`: a table of base pointers (heads of many layers or sequences, own allocations).
template <class T, MemorySpace S = MemorySpace::host>
class RowsView {
 public:
  static constexpr MemorySpace space = S;
  using element_type = T;

  RowsView() = default;

  /// A view of U converts to a view of const U.
  template <class U>
  requires(!std::is_same_v<T, U> && std::is_same_v<T, const U>) KVEVICT_HOST_DEVICE
      RowsView(const RowsView<U, S>& other)
      : layout_(other.layout_),
        dim_(other.dim_),
        row_stride_(other.row_stride_),
        channel_stride_(other.channel_stride_),
        head_stride_(other.head_stride_),
        base_(other.base_),
        table_(other.table_) {}

  static RowsView strided(T* base, std::int64_t heads, std::int64_t rows, std::int64_t dim,
                          std::int64_t head_stride, std::int64_t row_stride,
                          std::int64_t channel_stride = 1) {
    RowsView view(RowLayout<S>::uniform(heads, rows), dim, row_stride, channel_stride);
    require(base != nullptr || view.layout_.total() == 0, "base", "null", "a pointer to the rows");
    view.base_ = base;
    view.head_stride_ = head_stride;
    return view;
  }

  static RowsView packed(T* base, const RowLayout<S>& layout, std::int64_t dim,
                         std::int64_t row_stride, std::int64_t channel_stride = 1) {
    RowsView view(layout, dim, row_stride, channel_stride);
    require(base != nullptr || layout.total() == 0, "base", "null", "a pointer to the rows");
    view.base_ = base;
    return view;
  }

  static RowsView per_head(T* const* table, const RowLayout<S>& layout, std::int64_t dim,
                           std::int64_t row_stride, std::int64_t channel_stride = 1) {
    RowsView view(layout, dim, row_stride, channel_stride);
    require(table != nullptr || layout.heads() == 0, "table", "null", "one pointer for each head");
    if constexpr (S == MemorySpace::host) {
      for (std::int64_t h = 0; h < layout.heads(); ++h) {
        if (table[h] == nullptr && layout.rows(h) > 0) {
          require(false, detail::joined("table[", detail::text_of(h)) + "]", "null",
                  "a pointer to the head's rows");
        }
      }
    }
    view.table_ = table;
    return view;
  }

  KVEVICT_HOST_DEVICE const RowLayout<S>& layout() const { return layout_; }
  KVEVICT_HOST_DEVICE std::int64_t heads() const { return layout_.heads(); }
  KVEVICT_HOST_DEVICE std::int64_t rows(std::int64_t head) const { return layout_.rows(head); }
  KVEVICT_HOST_DEVICE std::int64_t dim() const { return dim_; }
  KVEVICT_HOST_DEVICE std::int64_t row_stride() const { return row_stride_; }
  KVEVICT_HOST_DEVICE std::int64_t channel_stride() const { return channel_stride_; }

  /// Matrix [row][dim] of one head.
  KVEVICT_HOST_DEVICE MatrixView<T, S> head(std::int64_t head) const {
    MatrixView<T, S> matrix;
    matrix.shape[0] = layout_.rows(head);
    matrix.shape[1] = dim_;
    matrix.stride[0] = row_stride_;
    matrix.stride[1] = channel_stride_;
    if (table_ != nullptr) {
      matrix.data = table_[head];
    } else if (head_stride_ != packed_heads) {
      matrix.data = base_ + head * head_stride_;
    } else {
      matrix.data = base_ + layout_.offset(head) * row_stride_;
    }
    return matrix;
  }

  /// The same memory with other row counts: after a compaction in place the heads keep their places
  /// and hold fewer rows. The view must not be `packed`, whose places follow from the counts.
  RowsView with_layout(const RowLayout<S>& layout) const {
    require(table_ != nullptr || head_stride_ != packed_heads, "rows", "packed",
            "strided or per head to change its row counts");
    require(layout.heads() == heads(), "layout.heads", layout.heads(), "equal to", heads());
    RowsView view = *this;
    view.layout_ = layout;
    return view;
  }

 private:
  template <class, MemorySpace>
  friend class RowsView;

  static constexpr std::int64_t packed_heads = INT64_MIN;

  RowsView(const RowLayout<S>& layout, std::int64_t dim, std::int64_t row_stride,
           std::int64_t channel_stride)
      : layout_(layout), dim_(dim), row_stride_(row_stride), channel_stride_(channel_stride) {
    require(dim >= 1, "dim", dim, ">=", 1);
    require(row_stride >= 1, "row_stride", row_stride, ">=", 1);
    require(channel_stride >= 1, "channel_stride", channel_stride, ">=", 1);
  }

  RowLayout<S> layout_;
  std::int64_t dim_ = 0;
  std::int64_t row_stride_ = 0;
  std::int64_t channel_stride_ = 1;
  std::int64_t head_stride_ = packed_heads;
  T* base_ = nullptr;
  T* const* table_ = nullptr;
};

}  // namespace kvevict
