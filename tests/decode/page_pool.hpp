// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kvevict/block_selection.hpp"
#include "kvevict/freed_pages.hpp"

namespace kvevict_test {

// The pages of a pool that nobody uses.
class FreePages {
 public:
  explicit FreePages(std::int64_t pages) : pages_(pages) {
    ids_.resize(static_cast<std::size_t>(pages));
    std::iota(ids_.begin(), ids_.end(), 0);
    // Handed out in no order: 7 has no divisor in common with the sizes that the tests use.
    const auto number = [&](std::int32_t page) { return page * 7 % pages_; };
    std::sort(ids_.begin(), ids_.end(),
              [&](std::int32_t a, std::int32_t b) { return number(a) < number(b); });
  }

  std::int64_t pages() const { return pages_; }
  const std::vector<std::int32_t>& ids() const { return ids_; }
  std::int64_t count() const { return static_cast<std::int64_t>(ids_.size()); }

  std::int32_t take() {
    kvevict::require(!ids_.empty(), "free pages", count(), ">=", 1);
    const std::int32_t id = ids_.back();
    ids_.pop_back();
    return id;
  }
  void give_back(std::int32_t id) { ids_.push_back(id); }

 private:
  std::int64_t pages_;
  std::vector<std::int32_t> ids_;
};

// The page tables of an engine: pages are taken from the free ones when a row needs one, and given
// back when `freed_pages` says so. Entries of a table that name no page are -1.
class PagePool {
 public:
  PagePool(std::shared_ptr<FreePages> free, std::int64_t tables, std::int64_t heads_per_table,
           std::int64_t page_rows, std::int64_t capacity)
      : page_rows_(page_rows), free_(std::move(free)) {
    table_.tables = tables;
    table_.heads_per_table = heads_per_table;
    table_.stride = pages_of(capacity, page_rows);
    table_.pages = free_->pages();
    ids_.assign(static_cast<std::size_t>(tables * table_.stride), -1);
    table_.ids = ids_.data();
  }
  // The table points into the object.
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  const kvevict::PageTable<>& table() const { return table_; }
  const std::vector<std::int32_t>& ids() const { return ids_; }
  static std::int64_t pages_of(std::int64_t rows, std::int64_t page_rows) {
    return (rows + page_rows - 1) / page_rows;
  }
  // Pages that the tables name.
  std::int64_t pages_held() const {
    return std::count_if(ids_.begin(), ids_.end(), [](std::int32_t id) { return id >= 0; });
  }
  std::int64_t page_rows() const { return page_rows_; }

  // The page of a row that is there.
  std::int64_t page(std::int64_t head, std::int64_t row) const {
    return table_.of(head)[row / page_rows_];
  }
  // The same, taking a page where there is none yet.
  void take(std::int64_t head, std::int64_t row) {
    std::int32_t& id = entry(table_.table_of(head), row / page_rows_);
    if (id < 0) id = free_->take();
  }
  // Keeps whole pages, as `select_blocks` chose them; no row moves.
  void keep(const kvevict::Selection& blocks, const kvevict::RowLayout<>& layout) {
    give_back(kvevict::keep_pages(blocks, table_, ids_.data(), page_rows_, layout));
  }
  void give_back(const kvevict::PageList& freed) {
    for (std::int64_t t = 0; t < table_.tables; ++t) {
      for (const std::int32_t id : freed.of(t)) {
        free_->give_back(id);
        for (std::int64_t i = 0; i < table_.stride; ++i) {
          if (entry(t, i) == id) entry(t, i) = -1;
        }
      }
    }
  }

  // Pages that are lost, in use twice, or in use without a row, for heads of these lengths, where
  // other engines hold some of the pool's pages.
  int faults(const kvevict::RowLayout<>& layout, std::int64_t held_elsewhere) const {
    int count = 0;
    std::vector<std::int32_t> all = free_->ids();
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
    const auto known = static_cast<std::int64_t>(all.size()) + held_elsewhere;
    return count + (known == table_.pages ? 0 : 1);
  }

 private:
  std::int32_t& entry(std::int64_t table, std::int64_t i) {
    return ids_[static_cast<std::size_t>(table * table_.stride + i)];
  }

  kvevict::PageTable<> table_;
  std::int64_t page_rows_;
  std::vector<std::int32_t> ids_;
  std::shared_ptr<FreePages> free_;
};

}  // namespace kvevict_test
