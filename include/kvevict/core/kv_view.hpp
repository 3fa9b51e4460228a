// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/positions.hpp"
#include "kvevict/core/rows_view.hpp"

namespace kvevict {

/// Non-owning view of cached keys and values, [head][row][dim] each with its own strides and
/// dimension, and of the rows' positions. Heads are flattened: layers x sequences x KV heads form
/// one axis, and each may hold its own number of rows. Keys are as cached, after RoPE. T is float,
/// half or bfloat16, or quantised (see storage.hpp): q8_0, q4_0, float8_e4m3 or float8_e5m2. `dim`
/// counts channels, strides count Ts. A view of T converts to a view of const T.
template <class T, MemorySpace S = MemorySpace::host>
class KvView {
 public:
  static constexpr MemorySpace space = S;
  using element_type = T;
  using position_type = std::conditional_t<std::is_const_v<T>, const std::int32_t, std::int32_t>;
  static_assert(Storage<std::remove_const_t<T>>, "T is float, half, bfloat16 or quantised");

  KvView() = default;

  /// A view of U converts to a view of const U.
  template <class U>
  requires(!std::is_same_v<T, U> && std::is_same_v<T, const U>) KvView(const KvView<U, S>& other)
      : keys_(other.keys()), values_(other.values()), positions_(other.positions()) {}

  /// Any two row views with equal row counts.
  KvView(RowsView<T, S> keys, RowsView<T, S> values, Positions<S, position_type> positions = {})
      : keys_(keys), values_(values), positions_(positions) {
    require(values.heads() == keys.heads(), "values.heads", values.heads(), "equal to keys.heads",
            keys.heads());
    require(same_rows(keys.layout(), values.layout()), "values.rows", "different",
            "equal to keys.rows for every head");
  }

  /// Contiguous [head][row][dim].
  static KvView hnd(T* k, T* v, std::int64_t heads, std::int64_t rows, std::int64_t dim) {
    require_memory(k, v, heads * rows);
    const std::int64_t row = dim / channels_of<T>;
    return KvView(RowsView<T, S>::strided(k, heads, rows, dim, rows * row, row),
                  RowsView<T, S>::strided(v, heads, rows, dim, rows * row, row));
  }

  /// Contiguous [row][head][dim].
  static KvView nhd(T* k, T* v, std::int64_t heads, std::int64_t rows, std::int64_t dim) {
    require_memory(k, v, heads * rows);
    const std::int64_t row = dim / channels_of<T>;
    const std::int64_t row_stride = (heads > 0 ? heads : 1) * row;
    return KvView(RowsView<T, S>::strided(k, heads, rows, dim, row, row_stride),
                  RowsView<T, S>::strided(v, heads, rows, dim, row, row_stride));
  }

  /// Ragged: the rows of all heads one after another, [sum of rows][dim], at the layout's offsets.
  static KvView ragged(T* k, T* v, const RowLayout<S>& layout, std::int64_t dim) {
    require_memory(k, v, layout.total());
    const std::int64_t row = dim / channels_of<T>;
    return KvView(RowsView<T, S>::packed(k, layout, dim, row),
                  RowsView<T, S>::packed(v, layout, dim, row));
  }

  /// One pointer for each head, each to [row][dim].
  static KvView per_head(T* const* k, T* const* v, const RowLayout<S>& layout, std::int64_t dim) {
    const std::int64_t row = dim / channels_of<T>;
    return KvView(RowsView<T, S>::per_head(k, layout, dim, row),
                  RowsView<T, S>::per_head(v, layout, dim, row));
  }

  /// Paged pools [page][row][head][dim]: rows of `kv_heads` heads in every page, found by the
  /// tables; head h of the view is head h % kv_heads of its pages. See RowsView::paged.
  static KvView paged_nhd(T* k, T* v, const PageTable<S>& table, const RowLayout<S>& layout,
                          std::int64_t page_rows, std::int64_t kv_heads, std::int64_t dim) {
    return paged(k, v, PageLayout::nhd(page_rows, kv_heads, dim / channels_of<T>), table, layout,
                 dim);
  }

  /// Paged pools [page][head][row][dim].
  static KvView paged_hnd(T* k, T* v, const PageTable<S>& table, const RowLayout<S>& layout,
                          std::int64_t page_rows, std::int64_t kv_heads, std::int64_t dim) {
    return paged(k, v, PageLayout::hnd(page_rows, kv_heads, dim / channels_of<T>), table, layout,
                 dim);
  }

  /// Pools of keys and values of any page layout, such as halves of one pool
  /// [page][keys, values][row][head][dim], whose `stride` spans both.
  static KvView paged(T* k, T* v, const PageLayout& page, const PageTable<S>& table,
                      const RowLayout<S>& layout, std::int64_t dim) {
    require_memory(k, v, layout.total());
    return KvView(RowsView<T, S>::paged(k, page, table, layout, dim),
                  RowsView<T, S>::paged(v, page, table, layout, dim));
  }

  /// The same with pools for each head, such as those of many layers that share tables: `k[h]` and
  /// `v[h]` point to the first row of head h in page 0 of its pools.
  static KvView paged_per_head(T* const* k, T* const* v, const PageLayout& page,
                               const PageTable<S>& table, const RowLayout<S>& layout,
                               std::int64_t dim) {
    return KvView(RowsView<T, S>::paged_per_head(k, page, table, layout, dim),
                  RowsView<T, S>::paged_per_head(v, page, table, layout, dim));
  }

  KvView with_positions(Positions<S, position_type> positions) const {
    KvView view = *this;
    view.positions_ = positions;
    return view;
  }

  /// The same rows, the keys of head h to be multiplied by key_scales[h], the values by
  /// value_scales[h]; both in the memory of S, null for rows that are not scaled.
  KvView with_scales(const float* key_scales, const float* value_scales) const
      requires(ScaledElement<std::remove_const_t<T>>) {
    KvView view = *this;
    view.keys_ = keys_.with_scales(key_scales);
    view.values_ = values_.with_scales(value_scales);
    return view;
  }

  /// The same rows, each to be multiplied by a scale of its own, which is a row of one float and
  /// moves with it. RowsView<float> finds them: [head][row] is strided(scales, heads, rows, 1,
  /// rows, 1), a pool [page][row][head] of the same pages paged(pool, PageLayout::nhd(page_rows,
  /// kv_heads, 1), table, layout, 1). Throws unless there is one for each row.
  KvView with_row_scales(const RowsView<ScaleOf<T>, S>& key_scales,
                         const RowsView<ScaleOf<T>, S>& value_scales) const
      requires(ScaledElement<std::remove_const_t<T>>) {
    KvView view = *this;
    view.keys_ = keys_.with_row_scales(key_scales);
    view.values_ = values_.with_row_scales(value_scales);
    return view;
  }

  /// The same places with other row counts and positions: the view of what the cache holds after a
  /// compaction in place, `cache.with_layout(kept.layout(), positions)`. The view refers to the
  /// offsets of `kept`. Positions stored for each head, `Positions::per_head`, stay valid through
  /// compactions; packed ones keep their old places and are refused. Throws unsupported for them
  /// and for `ragged` rows, whose places follow from their counts.
  KvView with_layout(const RowLayout<S>& layout, Positions<S, position_type> positions) const {
    require(std::is_const_v<T> || !positions.is_packed(), "positions", "packed",
            "per head: packed ones do not move with their offsets", ErrorKind::unsupported);
    return KvView(keys_.with_layout(layout), values_.with_layout(layout), positions);
  }

  const RowsView<T, S>& keys() const { return keys_; }
  const RowsView<T, S>& values() const { return values_; }
  const Positions<S, position_type>& positions() const { return positions_; }
  const RowLayout<S>& layout() const { return keys_.layout(); }
  std::int64_t heads() const { return keys_.heads(); }
  std::int64_t rows(std::int64_t head) const { return keys_.rows(head); }

  /// Bytes of one row's key and value, with scales that are its own.
  std::int64_t row_bytes() const {
    const auto scales = [](const RowsView<T, S>& rows) {
      return rows.scaled_by_row() ? std::int64_t{sizeof(float)} : 0;
    };
    return bytes_of_row<T>(keys_.dim()) + scales(keys_) + bytes_of_row<T>(values_.dim()) +
           scales(values_);
  }

 private:
  static void require_memory(const T* k, const T* v, std::int64_t rows) {
    require(k != nullptr || rows == 0, "keys", "null", "a pointer to the keys");
    require(v != nullptr || rows == 0, "values", "null", "a pointer to the values");
  }

  RowsView<T, S> keys_;
  RowsView<T, S> values_;
  Positions<S, position_type> positions_;
};

/// Throws unless the positions of every head ascend strictly. O(rows).
template <class T>
void require_ascending_positions(const KvView<T>& cache) {
  if (!cache.positions().stored()) return;
  for (std::int64_t h = 0; h < cache.heads(); ++h) {
    const auto row = cache.positions().row(h, cache.layout());
    for (std::int64_t i = 1; i < cache.rows(h); ++i) {
      require_for_head(row[i] > row[i - 1], "positions[row]", h, row[i],
                       "above the position before it,", row[i - 1]);
    }
  }
}

}  // namespace kvevict
