// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/head_view.hpp"
#include "kvevict/core/pages.hpp"
#include "kvevict/core/row_layout.hpp"
#include "kvevict/core/storage.hpp"

namespace kvevict {

namespace detail {

/// In the place of the scales of rows that have none.
struct NoScales {};

}  // namespace detail

/// The rows of all heads of one tensor (keys, or values), each head [row][dim]. Four ways to find a
/// head's rows, each with 64-bit strides that count Ts, which are elements or the blocks of a
/// quantised row (q8_0: `dim` / 32 for rows that follow each other); `dim` counts channels:
/// * `strided`: from base + head * head_stride on (contiguous tensors, any axis order),
/// * `packed`: from base + layout.offset(head) * row_stride on (all heads one after another, CSR),
/// * `per_head`: from an entry of a table of pointers on (heads of many layers or sequences, own
///   allocations),
/// * `paged`: in pages of a pool, which a table of page ids names in the order of the rows; the
///   pool is one for all heads, or (`paged_per_head`) each head has its own.
/// Page ids on the host are checked when a view is made; ids in device memory are not read then, so
/// that one outside the pool makes kernels read or write outside it.
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
        table_(other.table_),
        pages_(other.pages_),
        page_heads_(other.page_heads_),
        page_stride_(other.page_stride_),
        page_(other.page_),
        scales_(other.scales_),
        row_scales_(other.row_scales_) {}

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
    view.set_table(table);
    return view;
  }

  /// Rows in pages of the pool at `base`: head h is head h % page.heads of each of its pages.
  /// Throws unless every head has a page for each of its rows and, on the host, the ids that are
  /// used are below table.pages. O(pages) on the host.
  static RowsView paged(T* base, const PageLayout& page, const PageTable<S>& table,
                        const RowLayout<S>& layout, std::int64_t dim) {
    RowsView view(page, table, layout, dim);
    require(base != nullptr || layout.total() == 0, "base", "null", "a pointer to the pool");
    view.base_ = base;
    view.head_stride_ = page.head_stride;
    return view;
  }

  /// The same with a pool for each head, such as those of many layers: `bases[h]` points to the
  /// first row of head h in page 0 of its pool.
  static RowsView paged_per_head(T* const* bases, const PageLayout& page, const PageTable<S>& table,
                                 const RowLayout<S>& layout, std::int64_t dim) {
    RowsView view(page, table, layout, dim);
    view.set_table(bases);
    view.head_stride_ = page.head_stride;
    return view;
  }

  KVEVICT_HOST_DEVICE const RowLayout<S>& layout() const { return layout_; }
  KVEVICT_HOST_DEVICE std::int64_t heads() const { return layout_.heads(); }
  KVEVICT_HOST_DEVICE std::int64_t rows(std::int64_t head) const { return layout_.rows(head); }
  KVEVICT_HOST_DEVICE std::int64_t dim() const { return dim_; }
  KVEVICT_HOST_DEVICE std::int64_t row_stride() const { return row_stride_; }
  KVEVICT_HOST_DEVICE std::int64_t channel_stride() const { return channel_stride_; }

  KVEVICT_HOST_DEVICE bool is_paged() const { return page_stride_ > 0; }
  /// Of a paged view: the ids of the heads' pages.
  const PageTable<S>& page_table() const { return pages_; }
  /// Of a paged view: where rows lie in a page.
  PageLayout page_layout() const {
    return {page_.rows(), page_heads_, page_stride_, head_stride_, row_stride_, channel_stride_};
  }

  /// The same rows, those of head h to be multiplied by scales[h], in the memory of S; null: rows
  /// are not scaled.
  RowsView with_scales(const float* scales) const requires(ScaledElement<std::remove_const_t<T>>) {
    RowsView view = *this;
    view.scales_ = scales;
    view.row_scales_ = {};
    return view;
  }
  const float* scales() const { return scales_; }

  /// The same rows, row i of head h to be multiplied by row i of head h of `scales`, whose rows are
  /// of one channel each: the scales move with the rows. They may lie in another form than the
  /// rows, as in a pool of scales with the page table of the rows.
  RowsView with_row_scales(const RowsView<ScaleOf<T>, S>& scales) const
      requires(ScaledElement<std::remove_const_t<T>>) {
    require(scales.dim() == 1, "scales.dim", scales.dim(), "1: one for each row");
    require(same_rows(scales.layout(), layout_), "scales.rows", "different",
            "equal to those that are scaled, for every head");
    RowsView view = *this;
    view.scales_ = nullptr;
    view.row_scales_ = scales;
    return view;
  }
  /// Whether each row has a scale of its own.
  bool scaled_by_row() const {
    if constexpr (ScaledElement<std::remove_const_t<T>>) return row_scales_.dim() != 0;
    return false;
  }
  const RowsView<ScaleOf<T>, S>& row_scales() const
      requires(ScaledElement<std::remove_const_t<T>>) {
    return row_scales_;
  }

  /// For copies of these rows, of other counts: one after another from `base` on, with the same
  /// dimension and scales of heads; those of rows are copies too, from `scales` on.
  RowsView<std::remove_const_t<T>, S> packed_copies(std::remove_const_t<T>* base, float* scales,
                                                    const RowLayout<S>& layout) const {
    auto view =
        RowsView<std::remove_const_t<T>, S>::packed(base, layout, dim_, dim_ / channels_of<T>);
    view.scales_ = scales_;
    if constexpr (ScaledElement<std::remove_const_t<T>>) {
      if (scaled_by_row()) view.row_scales_ = RowsView<float, S>::packed(scales, layout, 1, 1);
    }
    return view;
  }

  /// The rows [row][dim] of one head.
  KVEVICT_HOST_DEVICE HeadView<T, S> head(std::int64_t head) const {
    HeadView<T, S> view;
    view.rows = layout_.rows(head);
    view.dim = dim_;
    view.row_stride = row_stride_;
    view.channel_stride = channel_stride_;
    view.page_stride = page_stride_;
    view.page = page_;
    if (is_paged()) view.page_ids = pages_.of(head);
    if constexpr (ScaledElement<std::remove_const_t<T>>) {
      if (scales_ != nullptr) view.scales.of_head = scales_[head];
      if (row_scales_.dim() != 0) view.scales.of_rows = row_scales_.head(head);
    }
    if (table_ != nullptr) {
      view.data = table_[head];
    } else if (is_paged()) {
      view.data = base_ + head % page_heads_ * head_stride_;
    } else if (head_stride_ != packed_heads) {
      view.data = base_ + head * head_stride_;
    } else {
      view.data = base_ + layout_.offset(head) * row_stride_;
    }
    return view;
  }

  /// The same memory with other row counts: after a compaction in place the heads keep their places
  /// and hold fewer rows, after rows were appended more. The view must not be `packed`, whose
  /// places follow from the counts, nor its scales by row. A paged view checks its pages again.
  RowsView with_layout(const RowLayout<S>& layout) const {
    require(table_ != nullptr || head_stride_ != packed_heads, "rows", "packed",
            "strided, per head or paged to change its row counts");
    require(layout.heads() == heads(), "layout.heads", layout.heads(), "equal to", heads());
    if (is_paged()) detail::require_pages(pages_, page_, layout);
    RowsView view = *this;
    view.layout_ = layout;
    if constexpr (ScaledElement<std::remove_const_t<T>>) {
      if (scaled_by_row()) view.row_scales_ = row_scales_.with_layout(layout);
    }
    return view;
  }

 private:
  template <class, MemorySpace>
  friend class RowsView;

  static constexpr std::int64_t packed_heads = INT64_MIN;

  using RowScales = std::conditional_t<ScaledElement<std::remove_const_t<T>>,
                                       RowsView<ScaleOf<T>, S>, detail::NoScales>;

  RowsView(const RowLayout<S>& layout, std::int64_t dim, std::int64_t row_stride,
           std::int64_t channel_stride)
      : layout_(layout), dim_(dim), row_stride_(row_stride), channel_stride_(channel_stride) {
    require(dim >= 1, "dim", dim, ">=", 1);
    require(dim % channels_of<T> == 0, "dim", dim, "a multiple of the channels of a block,",
            channels_of<T>);
    require(row_stride >= 1, "row_stride", row_stride, ">=", 1);
    require(channel_stride >= 1, "channel_stride", channel_stride, ">=", 1);
    if constexpr (BlockStorage<std::remove_const_t<T>>) {
      require(channel_stride == 1, "channel_stride", channel_stride, "1 for rows of blocks",
              ErrorKind::unsupported);
    }
  }

  RowsView(const PageLayout& page, const PageTable<S>& table, const RowLayout<S>& layout,
           std::int64_t dim)
      : RowsView(layout, dim, page.row_stride, page.channel_stride) {
    detail::require_page_layout(page);
    page_ = PageRows(page.rows);
    detail::require_pages(table, page_, layout);
    pages_ = table;
    page_heads_ = page.heads;
    page_stride_ = page.stride;
  }

  void set_table(T* const* table) {
    require(table != nullptr || heads() == 0, "table", "null", "one pointer for each head");
    if constexpr (S == MemorySpace::host) {
      for (std::int64_t h = 0; h < heads(); ++h) {
        if (table[h] == nullptr && rows(h) > 0) {
          require(false, detail::joined("table[", detail::text_of(h)) + "]", "null",
                  "a pointer to the head's rows");
        }
      }
    }
    table_ = table;
  }

  RowLayout<S> layout_;
  std::int64_t dim_ = 0;
  std::int64_t row_stride_ = 0;
  std::int64_t channel_stride_ = 1;
  std::int64_t head_stride_ = packed_heads;
  T* base_ = nullptr;
  T* const* table_ = nullptr;
  PageTable<S> pages_;
  std::int64_t page_heads_ = 1;
  std::int64_t page_stride_ = 0;
  PageRows page_;
  const float* scales_ = nullptr;
  RowScales row_scales_ = {};
};

namespace detail {

/// Calls use(scales...) with the scales of the rows if each row has its own, as those of all the
/// views then have: what moves rows moves their scales too.
template <class Use, class T, MemorySpace S, class... Others>
void with_row_scales(Use&& use, const RowsView<T, S>& rows, const Others&... others) {
  if constexpr (ScaledElement<std::remove_const_t<T>>) {
    if (rows.scaled_by_row()) use(rows.row_scales(), others.row_scales()...);
  }
}

}  // namespace detail

}  // namespace kvevict
