// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kvevict/core/pages.hpp"
#include "kvevict/core/selection.hpp"

namespace kvevict {

/// Ids of pages for each table, all tables one after another. Capacity is kept between calls.
struct PageList {
  std::vector<std::int64_t> offsets = {0};  ///< [tables + 1]
  std::vector<std::int32_t> ids;

  std::span<const std::int32_t> of(std::int64_t table) const KVEVICT_LIFETIMEBOUND {
    const auto t = static_cast<std::size_t>(table);
    return std::span(ids).subspan(static_cast<std::size_t>(offsets[t]),
                                  static_cast<std::size_t>(offsets[t + 1] - offsets[t]));
  }
};

namespace detail {

/// Pages that each table needs for heads of these lengths: a page is in use while one of the heads
/// that share the table has a row in it.
inline std::vector<std::int64_t> pages_in_use(const PageTable<>& table, const PageRows& page,
                                              const RowLayout<>& layout) {
  std::vector<std::int64_t> used(static_cast<std::size_t>(table.tables), 0);
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    if (layout.rows(h) == 0) continue;
    std::int64_t& most = used[static_cast<std::size_t>(table.table_of(h))];
    most = std::max(most, std::int64_t{page.page_of(layout.rows(h) - 1)} + 1);
  }
  return used;
}

}  // namespace detail

/// Which pages hold no row any more after a compaction by rows, which moves the kept ones to the
/// front: for each table, the pages behind those that its longest head needs, in the order of the
/// table. One evicted row frees a page only if it was alone there. `before` and `after` are the
/// row counts of the cache's heads; for a device cache give its host table and `layout.host()`.
/// Throws invalid_argument when a head has grown or needs more pages than its table has.
inline PageList freed_pages(const PageTable<>& table, std::int64_t page_rows,
                            const RowLayout<>& before, const RowLayout<>& after) {
  const PageRows page(page_rows);
  detail::require_pages(table, page, before);
  require_counts_fit(SelectionView<>{after, nullptr}, before);
  const std::vector<std::int64_t> used = detail::pages_in_use(table, page, before);
  const std::vector<std::int64_t> needed = detail::pages_in_use(table, page, after);
  PageList freed;
  for (std::size_t t = 0; t < used.size(); ++t) {
    const std::int32_t* ids = table.ids + static_cast<std::int64_t>(t) * table.stride;
    freed.ids.insert(freed.ids.end(), ids + needed[t], ids + used[t]);
    freed.offsets.push_back(static_cast<std::int64_t>(freed.ids.size()));
  }
  return freed;
}

}  // namespace kvevict
