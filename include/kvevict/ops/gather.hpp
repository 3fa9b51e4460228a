// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

namespace detail {

/// Indices on a device are not read back: their number is checked, not each of them.
template <MemorySpace S>
void require_compactable(const SelectionView<S>& kept, const RowLayout<S>& layout) {
  if constexpr (S == MemorySpace::host) {
    require_valid(kept, layout);
  } else {
    require_counts_fit(kept, layout);
  }
}

/// Throws when a head that is written to has a page twice. Ids in device memory are not read. Heads
/// that share a table are checked once; a sort of the ids of each table.
template <class R, class T>
void require_distinct_pages(R& res, const RowsView<T, R::space>& rows) {
  if constexpr (R::space == MemorySpace::host) {
    if (!rows.is_paged() || rows.layout().longest() == 0) return;
    const PageTable<>& table = rows.page_table();
    WorkspaceScope scope(res.workspace());
    auto* sorted = scope.template carve<std::int32_t>("compact.pages", table.stride);
    if (res.workspace().counting()) return;
    const std::int32_t* checked = nullptr;
    std::int64_t checked_pages = 0;
    for (std::int64_t h = 0; h < rows.heads(); ++h) {
      const std::int32_t* ids = table.of(h);
      const std::int64_t pages = rows.head(h).pages();
      if (ids == checked && pages <= checked_pages) continue;
      std::copy_n(ids, pages, sorted);
      std::sort(sorted, sorted + pages);
      const std::int32_t* twice = std::adjacent_find(sorted, sorted + pages);
      if (twice != sorted + pages) {
        const std::int32_t* first = std::find(ids, ids + pages, *twice);
        const std::int32_t* second = std::find(first + 1, ids + pages, *twice);
        require_for_head(false, page_entry(second - ids), h, *twice,
                         "another page, since rows are written, than that of entry", first - ids);
      }
      checked = ids;
      checked_pages = pages;
    }
  }
}

}  // namespace detail

/// to[h][j] = from[h][kept(h)[j]] for the kept rows j of every head. `to` holds at least that many
/// rows in each head, does not overlap `from` and has its scales, if any: bytes are copied, and
/// with them scales of rows. One read and one write of what is kept.
template <class R, class T>
void gather_rows(R& res, SelectionView<R::space> selection, const RowsView<const T, R::space>& from,
                 const RowsView<T, R::space>& to) {
  require(to.dim() == from.dim(), "to.dim", to.dim(), "equal to", from.dim());
  detail::require_same_scales(from, to, "to.scales");
  gather_rows_impl(res, selection, from, to);
  detail::with_row_scales(
      [&](const auto& source, const auto& target) {
        gather_rows_impl(res, selection, source, target);
      },
      from, to);
}

/// Moves the kept rows of every head to its front, in order, and with them scales of rows. A
/// destination never passes its source, so one forward pass over each head is enough; the rows
/// behind the kept ones are left as they were.
template <class R, class T>
void compact_rows(R& res, SelectionView<R::space> selection, const RowsView<T, R::space>& rows) {
  compact_rows_impl(res, selection, rows);
  detail::with_row_scales([&](const auto& scales) { compact_rows_impl(res, selection, scales); },
                          rows);
}

/// The same for stored positions; `from` and `to` may be the same.
template <class R>
void gather_positions(R& res, SelectionView<R::space> selection, const Positions<R::space>& from,
                      const RowLayout<R::space>& from_layout,
                      const Positions<R::space, std::int32_t>& to,
                      const RowLayout<R::space>& to_layout) {
  gather_positions_impl(res, selection, from, from_layout, to, to_layout);
}

}  // namespace kvevict
