// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/selections.hpp"
#include "decode/page_pool.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/queries.hpp"
#include "kvevict/decode_evictor.hpp"
#include "support/random.hpp"

namespace kvevict_test {

// Paged: one table for all heads, with pages [row][head] or [head][row], or one for each.
enum class CacheLayout { hnd, nhd, per_head, paged, paged_hnd, paged_by_head };
inline constexpr CacheLayout cache_layouts[] = {CacheLayout::hnd,       CacheLayout::nhd,
                                                CacheLayout::per_head,  CacheLayout::paged,
                                                CacheLayout::paged_hnd, CacheLayout::paged_by_head};

struct EngineShape {
  std::int64_t heads = 2;
  std::int64_t group = 2;
  std::int64_t dim = 4;
  std::int64_t capacity = 64;  // rows of a head

  kvevict::DecodeShape decode() const { return {heads, heads * group, dim}; }
};

// The queries of some tokens, [query_head][token][dim].
struct TokenQueries {
  std::vector<float> pre_rope;
  std::vector<float> post_rope;
  std::int64_t heads = 0;
  std::int64_t tokens = 0;
  std::int64_t dim = 0;

  kvevict::QueriesView<> pre() const {
    return kvevict::QueriesView<>::packed(pre_rope.data(), heads, tokens, dim);
  }
  kvevict::QueriesView<> post() const {
    return kvevict::QueriesView<>::packed(post_rope.data(), heads, tokens, dim);
  }
  kvevict::DecodeQueries<> view() const { return {pre(), post()}; }
};

// Where the rows of an engine lie: in its own memory, or in a copy of it.
template <class T, kvevict::MemorySpace S>
struct EngineMemory {
  T* keys;
  T* values;
  T* const* key_table;  // [heads]
  T* const* value_table;
  std::int32_t* const* position_table;
  const std::int32_t* page_ids;
  kvevict::RowLayout<S> layout;
};

// What an engine owns: a cache of a fixed capacity in one of the layouts, and beside it a plain
// list of the positions that each head must hold. What a row contains follows from its head and
// position, so that the whole cache can be checked at any time.
template <class T>
class Engine {
 public:
  Engine(CacheLayout layout, const EngineShape& shape, std::uint64_t seed)
      : layout_(layout),
        shape_(shape),
        random_(seed),
        pages_(one_table() ? 1 : shape.heads, one_table() ? shape.heads : 1, 5, shape.capacity) {
    const std::int64_t places = shape.heads * (shape.capacity + pages_.page_rows());
    keys_.resize(static_cast<std::size_t>(places * shape.dim));
    values_.resize(keys_.size());
    positions_.resize(static_cast<std::size_t>(places));
    offsets_.resize(static_cast<std::size_t>(shape.heads) + 1);
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      key_table_.push_back(keys_.data() + h * shape.capacity * shape.dim);
      value_table_.push_back(values_.data() + h * shape.capacity * shape.dim);
      position_table_.push_back(positions_.data() + h * shape.capacity);
    }
    reset();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Positions that head h must hold, ascending.
  const std::vector<std::int32_t>& held(std::int64_t h) const {
    return held_[static_cast<std::size_t>(h)];
  }
  std::int64_t rows(std::int64_t h) const { return static_cast<std::int64_t>(held(h).size()); }
  std::int64_t longest() const {
    std::int64_t most = 0;
    for (std::int64_t h = 0; h < shape_.heads; ++h) most = std::max(most, rows(h));
    return most;
  }
  std::int64_t total() const {
    std::int64_t sum = 0;
    for (std::int64_t h = 0; h < shape_.heads; ++h) sum += rows(h);
    return sum;
  }

  void reset() {
    held_.resize(static_cast<std::size_t>(shape_.heads));
    keep(selection_of(std::vector<std::vector<std::int32_t>>(held_.size())));
  }

  kvevict::KvView<T> view() {
    return view_of<kvevict::MemorySpace::host>({keys_.data(), values_.data(), key_table_.data(),
                                                value_table_.data(), position_table_.data(),
                                                pages_.table().ids, row_layout()});
  }

  template <kvevict::MemorySpace S>
  kvevict::KvView<T, S> view_of(const EngineMemory<T, S>& memory) const {
    using View = kvevict::KvView<T, S>;
    const auto positions = kvevict::Positions<S, std::int32_t>::per_head(memory.position_table);
    if (layout_ == CacheLayout::per_head) {
      return View::per_head(memory.key_table, memory.value_table, memory.layout, shape_.dim)
          .with_positions(positions);
    }
    if (paged()) {
      const kvevict::PageTable<>& table = pages_.table();
      return View::paged(memory.keys, memory.values, page_layout(),
                         kvevict::PageTable<S>{memory.page_ids, table.tables, table.stride,
                                               table.heads_per_table, table.pages},
                         memory.layout, shape_.dim)
          .with_positions(positions);
    }
    const View whole =
        layout_ == CacheLayout::hnd
            ? View::hnd(memory.keys, memory.values, shape_.heads, shape_.capacity, shape_.dim)
            : View::nhd(memory.keys, memory.values, shape_.heads, shape_.capacity, shape_.dim);
    return whole.with_layout(memory.layout, positions);
  }

  // The memory itself, of all heads; positions of head h begin at h * capacity.
  const EngineShape& shape() const { return shape_; }
  std::vector<T>& keys() { return keys_; }
  std::vector<T>& values() { return values_; }
  std::vector<std::int32_t>& positions() { return positions_; }
  const std::vector<std::int32_t>& page_ids() const { return pages_.ids(); }
  // [heads + 1], as the rows are now.
  const std::vector<std::int64_t>& offsets() {
    row_layout();
    return offsets_;
  }

  // Appends `tokens` rows to every head.
  void append(std::int64_t first_position, std::int64_t tokens) {
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      for (std::int64_t p = first_position; p < first_position + tokens; ++p) {
        const std::int64_t row = rows(h);
        kvevict::require(row < shape_.capacity, "row", row, "below the capacity");
        if (paged()) pages_.take(h, row);
        for (std::int64_t c = 0; c < shape_.dim; ++c) {
          keys_[place(h, row, c)] = key(h, p, c);
          values_[place(h, row, c)] = value(h, p, c);
        }
        position_table_[static_cast<std::size_t>(h)][row] = static_cast<std::int32_t>(p);
        held_[static_cast<std::size_t>(h)].push_back(static_cast<std::int32_t>(p));
      }
    }
  }

  // The list's side of a compaction, and that of the pages.
  void keep(const kvevict::Selection& kept) {
    if (paged()) {
      pages_.give_back(
          kvevict::freed_pages(pages_.table(), pages_.page_rows(), row_layout(), kept.layout()));
    }
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      std::vector<std::int32_t>& list = held_[static_cast<std::size_t>(h)];
      std::size_t next = 0;
      for (const std::int32_t row : kept.head(h))
        list[next++] = list[static_cast<std::size_t>(row)];
      list.resize(next);
    }
  }

  kvevict::BlockOptions blocks() const {
    return kvevict::BlockOptions::of(pages_.table(), page_layout());
  }
  // Keeps whole pages where they are; positions move to the front.
  void keep_blocks(const kvevict::Selection& blocks, const kvevict::Selection& rows) {
    pages_.keep(blocks, row_layout());
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      std::int32_t* positions = position_table_[static_cast<std::size_t>(h)];
      std::vector<std::int32_t>& list = held_[static_cast<std::size_t>(h)];
      std::size_t next = 0;
      for (const std::int32_t row : rows.head(h)) {
        positions[next] = positions[row];
        list[next++] = list[static_cast<std::size_t>(row)];
      }
      list.resize(next);
    }
  }

  TokenQueries queries(std::int64_t first_position, std::int64_t tokens) const {
    TokenQueries queries{{}, {}, shape_.heads * shape_.group, tokens, shape_.dim};
    for (std::int64_t q = 0; q < queries.heads; ++q) {
      for (std::int64_t p = first_position; p < first_position + tokens; ++p) {
        for (std::int64_t c = 0; c < shape_.dim; ++c) {
          queries.pre_rope.push_back(number(2, q, p, c));
          queries.post_rope.push_back(number(3, q, p, c));
        }
      }
    }
    return queries;
  }

  // Elements and positions that are not what the list says, and faults of the pages.
  int differences() {
    int count = paged() ? pages_.faults(row_layout()) : 0;
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      for (std::int64_t i = 0; i < rows(h); ++i) {
        const std::int32_t p = held(h)[static_cast<std::size_t>(i)];
        count += position_table_[static_cast<std::size_t>(h)][i] == p ? 0 : 1;
        for (std::int64_t c = 0; c < shape_.dim; ++c) {
          count += same(keys_[place(h, i, c)], key(h, p, c)) ? 0 : 1;
          count += same(values_[place(h, i, c)], value(h, p, c)) ? 0 : 1;
        }
      }
    }
    return count;
  }

  T key(std::int64_t h, std::int64_t p, std::int64_t c) const { return T(number(0, h, p, c)); }
  T value(std::int64_t h, std::int64_t p, std::int64_t c) const { return T(number(1, h, p, c)); }

  // Tokens get the contents of those that stand `by` positions before.
  void shift_contents(std::int64_t by) { shift_ = by; }

  // Head h of this engine gets the contents that head `as` has of itself.
  void rename_head(std::int64_t as) { first_head_ = as; }

 private:
  static bool same(T a, T b) { return static_cast<float>(a) == static_cast<float>(b); }

  bool one_table() const {
    return layout_ == CacheLayout::paged || layout_ == CacheLayout::paged_hnd;
  }
  bool paged() const { return one_table() || layout_ == CacheLayout::paged_by_head; }

  kvevict::PageLayout page_layout() const {
    const std::int64_t heads = pages_.table().heads_per_table;
    return layout_ == CacheLayout::paged_hnd
               ? kvevict::PageLayout::hnd(pages_.page_rows(), heads, shape_.dim)
               : kvevict::PageLayout::nhd(pages_.page_rows(), heads, shape_.dim);
  }

  // Refers to the engine.
  kvevict::RowLayout<> row_layout() {
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      const auto at = static_cast<std::size_t>(h);
      offsets_[at + 1] = offsets_[at] + rows(h);
    }
    return kvevict::RowLayout<>::ragged(offsets_.data(), shape_.heads);
  }

  std::size_t place(std::int64_t h, std::int64_t row, std::int64_t c) const {
    if (paged()) {
      const kvevict::PageLayout page = page_layout();
      return static_cast<std::size_t>(pages_.page(h, row) * page.stride +
                                      h % page.heads * page.head_stride +
                                      row % page.rows * page.row_stride + c);
    }
    if (layout_ == CacheLayout::nhd) {
      return static_cast<std::size_t>((row * shape_.heads + h) * shape_.dim + c);
    }
    return static_cast<std::size_t>((h * shape_.capacity + row) * shape_.dim + c);
  }

  // kind: keys, values, queries before and after RoPE.
  float number(int kind, std::int64_t head, std::int64_t position, std::int64_t channel) const {
    const std::int64_t first = kind < 2 ? first_head_ : first_head_ * shape_.group;
    const auto index = static_cast<std::uint64_t>(
        (((position - shift_) * 64 + head + first) * 4 + kind) * 64 + channel);
    return static_cast<float>(random_.uniform(index, -2.0, 2.0));
  }

  CacheLayout layout_;
  EngineShape shape_;
  Random random_;
  PagePool pages_;
  std::int64_t first_head_ = 0;
  std::int64_t shift_ = 0;
  std::vector<T> keys_;
  std::vector<T> values_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int64_t> offsets_;
  std::vector<T*> key_table_;
  std::vector<T*> value_table_;
  std::vector<std::int32_t*> position_table_;
  std::vector<std::vector<std::int32_t>> held_;
};

}  // namespace kvevict_test
