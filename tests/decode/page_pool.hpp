// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kvevict/block_selection.hpp"
#include "kvevict/freed_pages.hpp"

namespace kvevict_test {

// The pages of an engine: taken from a list of free ones when a row needs one, and given back when
// `freed_pages` says so. Entries of a table that name no page are -1.
class PagePool {
 public:
  PagePool() = default;
  PagePool(std::int64_t tables, std::int64_t heads_per_table, std::int64_t page_rows,
           std::int64_t capacity)
      : page_rows_(page_rows) {
    table_.tables = tables;
    table_.heads_per_table = heads_per_table;
    table_.stride = (capacity + page_rows - 1) / page_rows;
    table_.pages = tables * table_.stride;
    ids_.assign(static_cast<std::size_t>(table_.pages), -1);
    table_.ids = ids_.data();
    free_.resize(ids_.size());
    std::iota(free_.begin(), free_.end(), 0);
    // Handed out in no order: 7 has no divisor in common with the sizes that the tests use.
    const auto number = [&](std::int32_t page) { return page * 7 % table_.pages; };
    std::sort(free_.begin(), free_.end(),
              [&](std::int32_t a, std::int32_t b) { return number(a) < number(b); });
  }
  // The table points into the object.
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  const kvevict::PageTable<>& table() const { return table_; }
  const std::vector<std::int32_t>& ids() const { return ids_; }
  std::int64_t pages() const { return table_.pages; }
  std::int64_t page_rows() const { return page_rows_; }

  // The page of a row that is there.
  std::int64_t page(std::int64_t head, std::int64_t row) const {
    return table_.of(head)[row / page_rows_];
  }
  // The same, taking a page where there is none yet.
  void take(std::int64_t head, std::int64_t row) {
    std::int32_t& id = entry(table_.table_of(head), row / page_rows_);
    if (id >= 0) return;
    id = free_.back();
    free_.pop_back();
  }
  // Keeps whole pages, as `select_blocks` chose them; no row moves.
  void keep(const kvevict::Selection& blocks, const kvevict::RowLayout<>& layout) {
    give_back(kvevict::keep_pages(blocks, table_, ids_.data(), page_rows_, layout));
  }
  void give_back(const kvevict::PageList& freed) {
    for (std::int64_t t = 0; t < table_.tables; ++t) {
      for (const std::int32_t id : freed.of(t)) {
        free_.push_back(id);
        for (std::int64_t i = 0; i < table_.stride; ++i) {
          if (entry(t, i) == id) entry(t, i) = -1;
        }
      }
    }
  }

  // Pages that are lost, in use twice, or in use without a row, for heads of these lengths.
  int faults(const kvevict::RowLayout<>& layout) const {
    int count = 0;
    std::vector<std::int32_t> all = free_;
    const std::vector<std::int64_t> needed =
        kvevict::detail::pages_in_use(table_, kvevict::PageRows(page_rows_), layout);
    for (std::int64_t t = 0; t < table_.tables; ++t) {
      for (std::int64_t i = 0; i < table_.stride; ++i) {
        const std::int32_t id = ids_[static_cast<std::size_t>(t * table_.stride + i)];
        count += (id >= 0) == (i < needed[static_cast<std::size_t>(t)]) ? 0 : 1;
        if (id >= 0) all.push_back(id);
      }
    }
    std::sort(all.begin(), all.end());
    count += std::adjacent_find(all.begin(), all.end()) == all.end() ? 0 : 1;
    return count + (static_cast<std::int64_t>(all.size()) == table_.pages ? 0 : 1);
  }

 private:
  std::int32_t& entry(std::int64_t table, std::int64_t i) {
    return ids_[static_cast<std::size_t>(table * table_.stride + i)];
  }

  kvevict::PageTable<> table_;
  std::int64_t page_rows_ = 1;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> free_;
};

}  // namespace kvevict_test
