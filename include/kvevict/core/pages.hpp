// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "kvevict/core/config.hpp"
#include "kvevict/core/error.hpp"
#include "kvevict/core/memory_space.hpp"
#include "kvevict/core/row_layout.hpp"

namespace kvevict {

/// Rows of a page, with what divides by them: page_of(i) = i / rows without a division, which a
/// reader of single rows would feel. Exact for rows in [1, 2^31) and i in [0, 2^31).
class PageRows {
 public:
  PageRows() = default;

  explicit PageRows(std::int64_t rows) : rows_(static_cast<std::int32_t>(rows)) {
    require(rows >= 1 && rows <= INT32_MAX, "page_rows", rows, "in [1, 2^31)");
    while ((std::int64_t{1} << (shift_ - 31)) < rows) ++shift_;
    factor_ = static_cast<std::uint32_t>((std::uint64_t{1} << shift_) /
                                         static_cast<std::uint64_t>(rows)) +
              1;
  }

  KVEVICT_HOST_DEVICE std::int32_t rows() const { return rows_; }
  KVEVICT_HOST_DEVICE std::int32_t page_of(std::int64_t row) const {
    // One product of 32 x 32 bits.
    const std::uint64_t product = std::uint64_t{static_cast<std::uint32_t>(row)} * factor_;
    return static_cast<std::int32_t>(product >> shift_);
  }

 private:
  std::int32_t rows_ = 1;
  std::int32_t shift_ = 31;
  std::uint32_t factor_ = 0x80000001u;
};

/// Where the rows of a page lie in a pool of pages, in steps of the rows' type: row r of the page's
/// head s is at page * stride + s * head_stride + r * row_stride. Head h of a view is head h %
/// heads of its pages.
struct PageLayout {
  std::int64_t rows = 0;   ///< of each head in a page
  std::int64_t heads = 1;  ///< that have rows in every page
  std::int64_t stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
  std::int64_t channel_stride = 1;

  /// A pool [page][row][head][dim]; for rows of quantised blocks `dim` counts the blocks.
  static PageLayout nhd(std::int64_t rows, std::int64_t heads, std::int64_t dim) {
    return {rows, heads, rows * heads * dim, dim, heads * dim, 1};
  }
  /// A pool [page][head][row][dim].
  static PageLayout hnd(std::int64_t rows, std::int64_t heads, std::int64_t dim) {
    return {rows, heads, rows * heads * dim, rows * dim, dim, 1};
  }
};

/// Which pages hold the rows of a head, in the order of the rows: page i of the head is
/// ids[i], the last one may be filled partly. `heads_per_table` consecutive heads share a table:
/// the KV heads of a sequence, or 1 where every head has pages of its own. Head h reads table
/// (h / heads_per_table) % tables, so that layers that follow each other may share tables.
template <MemorySpace S = MemorySpace::host>
struct PageTable {
  const std::int32_t* ids = nullptr;  ///< [tables][stride], in the memory of S
  std::int64_t tables = 1;
  std::int64_t stride = 0;  ///< entries of a table, used or not
  std::int64_t heads_per_table = 1;
  std::int64_t pages = 0;  ///< of the pool; every id that is used is in [0, pages)

  KVEVICT_HOST_DEVICE std::int64_t table_of(std::int64_t head) const {
    return head / heads_per_table % tables;
  }
  KVEVICT_HOST_DEVICE const std::int32_t* of(std::int64_t head) const {
    return ids == nullptr ? nullptr : ids + table_of(head) * stride;
  }
};

namespace detail {

/// "page_table[<entry>]", for messages.
inline std::string page_entry(std::int64_t entry) {
  return joined(joined("page_table[", text_of(entry)), "]");
}

inline void require_page_layout(const PageLayout& page) {
  require(page.heads >= 1, "page.heads", page.heads, ">=", 1);
  require(page.stride >= 1, "page.stride", page.stride, ">=", 1);
}

/// Throws unless the tables have an entry for every page of every head and, on the host, each is
/// the id of a page. Ids in device memory are not read: kernels trust them. O(heads) on a device,
/// O(pages) on the host.
template <MemorySpace S>
void require_pages(const PageTable<S>& table, const PageRows& page, const RowLayout<S>& layout) {
  const RowLayout<> rows = layout.host();
  require(rows.longest() <= INT32_MAX, "rows", rows.longest(), "below 2^31 in a paged view");
  require(table.tables >= 1, "page_table.tables", table.tables, ">=", 1);
  require(table.heads_per_table >= 1, "page_table.heads_per_table", table.heads_per_table, ">=", 1);
  require(table.ids != nullptr || rows.total() == 0, "page_table.ids", "null",
          "the ids of the heads' pages");
  std::int64_t checked_table = -1;
  std::int64_t checked = 0;
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    if (rows.rows(h) == 0) continue;
    const std::int64_t used = std::int64_t{page.page_of(rows.rows(h) - 1)} + 1;
    require_for_head(used <= table.stride, "pages", h, used, "at most the entries of its table,",
                     table.stride);
    if constexpr (S == MemorySpace::host) {
      // Heads that share a table are mostly neighbours of the same length.
      const bool same = table.table_of(h) == checked_table;
      for (std::int64_t i = same ? checked : 0; i < used; ++i) {
        const std::int32_t id = table.of(h)[i];
        if (id < 0 || id >= table.pages) {
          require_for_head(false, page_entry(i), h, id, "in [0, pages), pages =", table.pages);
        }
      }
      checked = same && checked > used ? checked : used;
      checked_table = table.table_of(h);
    }
  }
}

}  // namespace detail

}  // namespace kvevict
