// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/ops/gather.hpp"

// What is checked before rows in pages are written. Two rows that lie at one place are no error of
// a view: sequences may read the pages of a common prefix. Written they would lose one of the two.
// Ids in device memory are not read, so nothing is checked there.
namespace kvevict::detail {

/// Throws for an entry of head h whose page, at the same place in it, holds rows of another of
/// `heads` too.
template <class T>
void require_own_page(const RowsView<T>& rows, std::span<const std::int64_t> heads, std::int64_t h,
                      std::int64_t entry) {
  const std::int32_t id = rows.head(h).page_ids[entry];
  for (const std::int64_t other : heads) {
    const HeadView<T> head = rows.head(other);
    const std::int32_t* end = head.page_ids + head.pages();
    const std::int32_t* found = std::find(head.page_ids, end, id);
    if (other == h || found == end) continue;
    std::string than = "another page, since rows are written, than that of entry ";
    than.append(text_of(found - head.page_ids)).append(" of head");
    require_for_head(false, page_entry(entry), h, id, than, other);
  }
}

/// Throws when a head writes to a page in which another head has rows, at the same place of the
/// same pool. Heads that share a table lie at different places of its pages. `each_written(h, use)`
/// calls use(entry) for the entries of head h whose pages it writes to. Where no two heads begin at
/// one address, as in the cache of one sequence, only the heads are sorted; else O(pages of the
/// heads) and two bits for each page of the pool.
template <class R, class T, class Written>
void require_unshared_pages(R& res, const RowsView<T, R::space>& rows,
                            const Written& each_written) {
  if constexpr (R::space == MemorySpace::host) {
    if (!rows.is_paged() || rows.layout().longest() == 0) return;
    const std::int64_t count = rows.heads();
    const std::int64_t words = (rows.page_table().pages + 63) / 64;
    WorkspaceScope scope(res.workspace());
    auto* order = scope.template carve<std::int64_t>("compact.heads", count);
    if (res.workspace().counting()) return;
    const auto first_of = [&](std::int64_t h) -> const T* { return rows.head(h).data; };
    std::iota(order, order + count, std::int64_t{0});
    std::sort(order, order + count, [&](std::int64_t a, std::int64_t b) {
      if (first_of(a) == first_of(b)) return a < b;
      return std::less<const T*>()(first_of(a), first_of(b));
    });
    for (std::int64_t begin = 0, end = 0; begin < count; begin = end) {
      while (end < count && first_of(order[end]) == first_of(order[begin])) ++end;
      if (end - begin == 1) continue;
      const std::span<const std::int64_t> heads(order + begin, order + end);
      WorkspaceScope bitmaps(res.workspace());
      auto* in_use = bitmaps.template carve<std::uint64_t>("compact.pages in use", words);
      auto* shared = bitmaps.template carve<std::uint64_t>("compact.shared pages", words);
      std::fill_n(in_use, words, std::uint64_t{0});
      std::fill_n(shared, words, std::uint64_t{0});
      const auto bit = [](std::int32_t id) { return std::uint64_t{1} << (id % 64); };
      for (const std::int64_t h : heads) {
        const HeadView<T> head = rows.head(h);
        for (std::int64_t p = 0; p < head.pages(); ++p) {
          const std::int32_t id = head.page_ids[p];
          shared[id / 64] |= in_use[id / 64] & bit(id);
          in_use[id / 64] |= bit(id);
        }
      }
      for (const std::int64_t h : heads) {
        const std::int32_t* ids = rows.page_table().of(h);
        each_written(h, [&](std::int64_t entry) {
          const std::int32_t id = ids[entry];
          if ((shared[id / 64] & bit(id)) != 0) require_own_page(rows, heads, h, entry);
        });
      }
    }
  }
}

/// Before the kept rows of every head are moved to its front: pages that rows are moved into are
/// written, those of a front that stays where it is are not.
template <class R, class T>
void require_movable(R& res, const SelectionView<R::space>& kept,
                     const RowsView<T, R::space>& rows) {
  with_row_scales([&](const auto& scales) { require_movable(res, kept, scales); }, rows);
  require_distinct_pages(res, rows);
  require_unshared_pages(res, rows, [&](std::int64_t h, const auto& use) {
    const PageRows page(rows.page_layout().rows);
    std::int64_t row = 0;
    while (row < kept.count(h) && kept.head(h)[row] == row) ++row;
    for (; row < kept.count(h); row = (row / page.rows() + 1) * page.rows()) use(page.page_of(row));
  });
}

/// Before any of the kept rows is written where it stands, in heads that others are evicted from.
template <class R, class T>
void require_mergeable(R& res, const SelectionView<R::space>& kept,
                       const RowsView<T, R::space>& rows) {
  require_distinct_pages(res, rows);
  require_unshared_pages(res, rows, [&](std::int64_t h, const auto& use) {
    if (kept.count(h) == rows.rows(h)) return;
    const PageRows page(rows.page_layout().rows);
    std::int64_t last = -1;
    for (std::int64_t j = 0; j < kept.count(h); ++j) {
      const std::int64_t entry = page.page_of(kept.head(h)[j]);
      if (entry != last) use(entry);
      last = entry;
    }
  });
}

/// Before the first counts.rows(h) rows of every head are written.
template <class R, class T>
void require_writable(R& res, const RowLayout<R::space>& counts,
                      const RowsView<T, R::space>& rows) {
  with_row_scales([&](const auto& scales) { require_writable(res, counts, scales); }, rows);
  require_distinct_pages(res, rows);
  require_unshared_pages(res, rows, [&](std::int64_t h, const auto& use) {
    const PageRows page(rows.page_layout().rows);
    for (std::int64_t row = 0; row < counts.rows(h); row += page.rows()) use(page.page_of(row));
  });
}

}  // namespace kvevict::detail
