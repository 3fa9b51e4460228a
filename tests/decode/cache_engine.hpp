// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/selections.hpp"
#include "decode/page_pool.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/queries.hpp"
#include "kvevict/decode_evictor.hpp"
#include "support/quantised.hpp"
#include "support/random.hpp"

namespace kvevict_test {

// Paged: one table for all heads, with pages [row][head] or [head][row], or one for each. Ragged:
// the rows of all heads one after another, so that all move when any head grows or shrinks.
enum class CacheLayout { hnd, nhd, per_head, paged, paged_hnd, paged_by_head, ragged };
// Those whose heads keep their places.
inline constexpr CacheLayout cache_layouts[] = {CacheLayout::hnd,       CacheLayout::nhd,
                                                CacheLayout::per_head,  CacheLayout::paged,
                                                CacheLayout::paged_hnd, CacheLayout::paged_by_head};
// Every one.
inline constexpr CacheLayout all_layouts[] = {
    CacheLayout::ragged, CacheLayout::hnd,       CacheLayout::nhd,          CacheLayout::per_head,
    CacheLayout::paged,  CacheLayout::paged_hnd, CacheLayout::paged_by_head};

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

// What rows contain follows from their head and position.
class TokenContents {
 public:
  TokenContents(const EngineShape& shape, std::uint64_t seed) : shape_(shape), random_(seed) {}

  // Kinds: keys, values, queries before and after RoPE.
  float number(int kind, std::int64_t head, std::int64_t position, std::int64_t channel) const {
    const std::int64_t first = kind < 2 ? first_head_ : first_head_ * shape_.group;
    const auto index = static_cast<std::uint64_t>(
        (((position - shift_) * 64 + head + first) * 4 + kind) * 64 + channel);
    return static_cast<float>(random_.uniform(index, -2.0, 2.0));
  }

  // T number `unit` of a row: an element, or 32 channels in one.
  template <class T>
  T unit(int kind, std::int64_t head, std::int64_t position, std::int64_t unit) const {
    if constexpr (kvevict::BlockStorage<T>) {
      float values[32];
      for (std::int64_t c = 0; c < 32; ++c) values[c] = number(kind, head, position, 32 * unit + c);
      T block;
      quantise(values, block);
      return block;
    } else if constexpr (kvevict::ScaledElement<T>) {
      // A sign, and one of the 16 magnitudes from 0x30 on, which lie about 1.
      const float n = number(kind, head, position, unit);
      const auto magnitude = static_cast<int>((n < 0 ? -n : n) * 7.9f);
      return T{static_cast<std::uint8_t>((n < 0 ? 0x80 : 0) + 0x30 + magnitude)};
    } else {
      return T(number(kind, head, position, unit));
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

  // Tokens get the contents of those that stand `by` positions before.
  void shift(std::int64_t by) { shift_ = by; }
  // Head h gets the contents that head `as` + h would have.
  void rename_head(std::int64_t as) { first_head_ = as; }

 private:
  EngineShape shape_;
  Random random_;
  std::int64_t first_head_ = 0;
  std::int64_t shift_ = 0;
};

// The memory of an engine's rows, or the pages that several engines share.
template <class T>
struct CacheMemory {
  std::vector<T> keys;
  std::vector<T> values;
  std::shared_ptr<FreePages> free;

  CacheMemory(std::int64_t units, std::int64_t pages)
      : keys(static_cast<std::size_t>(units)),
        values(keys),
        free(std::make_shared<FreePages>(pages)) {}
};

// What an engine owns: a cache of a fixed capacity in one of the layouts, and beside it a plain
// list of the positions that each head must hold. What a row contains follows from its head and
// position, so that the whole cache can be checked at any time, as bytes.
template <class T>
class Engine {
 public:
  static constexpr std::int64_t page_rows = 5;

  Engine(CacheLayout layout, const EngineShape& shape, std::uint64_t seed)
      : Engine(layout, shape, seed, memory_for(layout, shape, 1)) {}
  // In pages of `memory`, beside other engines.
  Engine(CacheLayout layout, const EngineShape& shape, std::uint64_t seed,
         std::shared_ptr<CacheMemory<T>> memory)
      : layout_(layout),
        shape_(shape),
        contents_(shape, seed),
        memory_(std::move(memory)),
        pages_(memory_->free, one_table(layout) ? 1 : shape.heads,
               one_table(layout) ? shape.heads : 1, page_rows, shape.capacity) {
    positions_.resize(static_cast<std::size_t>(shape.heads * shape.capacity));
    offsets_.resize(static_cast<std::size_t>(shape.heads) + 1);
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      key_table_.push_back(keys().data() + h * shape.capacity * units());
      value_table_.push_back(values().data() + h * shape.capacity * units());
      starts_.push_back(h * shape.capacity);
      // Powers of two, so that the floats that float8 stands for are exact.
      scales_.push_back(h % 2 == 0 ? 0.5f : 0.25f);
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
    if (layout_ == CacheLayout::ragged) return ragged_view(*memory_, positions_, row_layout());
    position_table_.clear();
    for (const std::int64_t start : starts_) position_table_.push_back(positions_.data() + start);
    return scaled(view_of<kvevict::MemorySpace::host>(
        {keys().data(), values().data(), key_table_.data(), value_table_.data(),
         position_table_.data(), pages_.table().ids, row_layout()}));
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
  std::vector<T>& keys() { return memory_->keys; }
  std::vector<T>& values() { return memory_->values; }
  std::vector<std::int32_t>& positions() { return positions_; }
  const std::vector<std::int32_t>& page_ids() const { return pages_.ids(); }
  // [heads + 1], as the rows are now.
  const std::vector<std::int64_t>& offsets() {
    row_layout();
    return offsets_;
  }

  // Appends `tokens` rows to every head.
  void append(std::int64_t first_position, std::int64_t tokens) {
    if (layout_ == CacheLayout::ragged) rebuild(tokens);
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      for (std::int64_t p = first_position; p < first_position + tokens; ++p) add_row(h, p);
    }
  }

  // Forgets the last `count` rows of every head: drafts that were not accepted.
  void take_back(std::int64_t count) {
    std::vector<std::vector<std::int32_t>> stay;
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      stay.push_back(rows_from(0, static_cast<std::int32_t>(rows(h) - count)));
    }
    keep(selection_of(stay));
  }

  // Takes the rows of another engine of the same contents, in places of its own.
  void copy_rows_of(const Engine& other) {
    reset();
    std::int64_t start = 0;
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      if (layout_ == CacheLayout::ragged) starts_[static_cast<std::size_t>(h)] = start;
      for (const std::int32_t p : other.held(h)) add_row(h, p);
      start += rows(h);
    }
  }

  // The list's side of a compaction, and that of the pages.
  void keep(const kvevict::Selection& kept) {
    if (paged()) {
      pages_.give_back(
          kvevict::freed_pages(pages_.table(), pages_.page_rows(), row_layout(), kept.layout()));
    }
    keep_listed(kept);
    if (layout_ == CacheLayout::ragged) rebuild(0);
  }

  // Ragged: where the kept rows can be copied to; then that they were.
  kvevict::KvView<T> copies(const kvevict::Selection& kept) {
    return ragged_view(other_memory(), other_positions_, kept.layout());
  }
  void keep_copies(const kvevict::Selection& kept) {
    keep_listed(kept);
    starts_.assign(kept.offsets().begin(), kept.offsets().end() - 1);
    std::swap(memory_, other_);
    std::swap(positions_, other_positions_);
  }

  kvevict::BlockOptions blocks() const {
    return kvevict::BlockOptions::of(pages_.table(), page_layout());
  }
  // Keeps whole pages where they are; positions move to the front.
  void keep_blocks(const kvevict::Selection& blocks, const kvevict::Selection& rows) {
    pages_.keep(blocks, row_layout());
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      std::int32_t* positions = positions_of(h);
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
    return contents_.queries(first_position, tokens);
  }
  const TokenContents& contents() const { return contents_; }
  // The numbers that the stored key of a token stands for, [dim].
  void key_numbers(std::int64_t h, std::int64_t p, double* out) const {
    for (std::int64_t u = 0; u < units(); ++u) {
      const T unit = contents_.unit<T>(0, h, p, u);
      for (std::int64_t c = 0; c < kvevict::channels_of<T>; ++c) {
        const double stored = kvevict::channel_of(&unit, c, 1);
        *out++ = kvevict::ScaledElement<T> ? stored * scales_[static_cast<std::size_t>(h)] : stored;
      }
    }
  }
  void shift_contents(std::int64_t by) { contents_.shift(by); }
  void rename_head(std::int64_t as) { contents_.rename_head(as); }

  // Units of rows, and positions, that are not what the list says, and faults of the pages.
  int differences(std::int64_t pages_held_elsewhere = 0) {
    int count = paged() ? pages_.faults(row_layout(), pages_held_elsewhere) : 0;
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      for (std::int64_t i = 0; i < rows(h); ++i) {
        const std::int32_t p = held(h)[static_cast<std::size_t>(i)];
        count += positions_of(h)[i] == p ? 0 : 1;
        for (std::int64_t u = 0; u < units(); ++u) {
          count += same(keys()[place(h, i, u)], contents_.unit<T>(0, h, p, u)) ? 0 : 1;
          count += same(values()[place(h, i, u)], contents_.unit<T>(1, h, p, u)) ? 0 : 1;
        }
      }
    }
    return count;
  }
  std::int64_t pages_held() const { return pages_.pages_held(); }

  // Ts of a row, and where they lie in keys() and values().
  std::int64_t units() const { return shape_.dim / kvevict::channels_of<T>; }
  std::size_t place(std::int64_t h, std::int64_t row, std::int64_t unit) const {
    if (paged()) {
      const kvevict::PageLayout page = page_layout();
      return static_cast<std::size_t>(pages_.page(h, row) * page.stride +
                                      h % page.heads * page.head_stride +
                                      row % page.rows * page.row_stride + unit);
    }
    if (layout_ == CacheLayout::nhd) {
      return static_cast<std::size_t>((row * shape_.heads + h) * units() + unit);
    }
    return static_cast<std::size_t>((starts_[static_cast<std::size_t>(h)] + row) * units() + unit);
  }

  // Memory for engines of this layout and shape: `engines` of them at their full capacity.
  static std::shared_ptr<CacheMemory<T>> memory_for(CacheLayout layout, const EngineShape& shape,
                                                    std::int64_t engines) {
    const std::int64_t tables = one_table(layout) ? 1 : shape.heads;
    const std::int64_t pages = engines * tables * PagePool::pages_of(shape.capacity, page_rows);
    const std::int64_t rows = pages * page_rows * (shape.heads / tables);
    return std::make_shared<CacheMemory<T>>(rows * (shape.dim / kvevict::channels_of<T>), pages);
  }

 private:
  static bool same(const T& a, const T& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

  static bool one_table(CacheLayout layout) {
    return layout == CacheLayout::paged || layout == CacheLayout::paged_hnd;
  }
  bool paged() const { return one_table(layout_) || layout_ == CacheLayout::paged_by_head; }

  kvevict::PageLayout page_layout() const {
    const std::int64_t heads = pages_.table().heads_per_table;
    return layout_ == CacheLayout::paged_hnd ? kvevict::PageLayout::hnd(page_rows, heads, units())
                                             : kvevict::PageLayout::nhd(page_rows, heads, units());
  }

  // Refers to the engine.
  kvevict::RowLayout<> row_layout() {
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      const auto at = static_cast<std::size_t>(h);
      offsets_[at + 1] = offsets_[at] + rows(h);
    }
    return kvevict::RowLayout<>::ragged(offsets_.data(), shape_.heads);
  }

  kvevict::KvView<T> scaled(const kvevict::KvView<T>& view) const {
    if constexpr (kvevict::ScaledElement<T>) {
      return view.with_scales(scales_.data(), scales_.data());
    } else {
      return view;
    }
  }
  kvevict::KvView<T> ragged_view(CacheMemory<T>& memory, std::vector<std::int32_t>& positions,
                                 const kvevict::RowLayout<>& layout) const {
    return scaled(
        kvevict::KvView<T>::ragged(memory.keys.data(), memory.values.data(), layout, shape_.dim)
            .with_positions(kvevict::MutablePositions<>::packed(positions.data())));
  }

  std::int32_t* positions_of(std::int64_t h) {
    return positions_.data() + starts_[static_cast<std::size_t>(h)];
  }
  CacheMemory<T>& other_memory() {
    if (other_ == nullptr) {
      other_ = std::make_shared<CacheMemory<T>>(*memory_);
      other_positions_ = positions_;
    }
    return *other_;
  }

  void keep_listed(const kvevict::Selection& kept) {
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      std::vector<std::int32_t>& list = held_[static_cast<std::size_t>(h)];
      std::size_t next = 0;
      for (const std::int32_t row : kept.head(h))
        list[next++] = list[static_cast<std::size_t>(row)];
      list.resize(next);
    }
  }

  // Ragged: copies the rows of every head to where they lie when each has `added` more.
  void rebuild(std::int64_t added) {
    CacheMemory<T>& to = other_memory();
    std::int64_t start = 0;
    for (std::int64_t h = 0; h < shape_.heads; ++h) {
      const auto first = static_cast<std::ptrdiff_t>(place(h, 0, 0));
      const std::int64_t count = rows(h);
      std::copy_n(keys().begin() + first, count * units(), to.keys.begin() + start * units());
      std::copy_n(values().begin() + first, count * units(), to.values.begin() + start * units());
      std::copy_n(positions_of(h), count, other_positions_.begin() + start);
      starts_[static_cast<std::size_t>(h)] = start;
      start += count + added;
    }
    std::swap(memory_, other_);
    std::swap(positions_, other_positions_);
  }

  void add_row(std::int64_t h, std::int64_t p) {
    const std::int64_t row = rows(h);
    kvevict::require(row < shape_.capacity, "row", row, "below the capacity");
    if (paged()) pages_.take(h, row);
    for (std::int64_t u = 0; u < units(); ++u) {
      keys()[place(h, row, u)] = contents_.unit<T>(0, h, p, u);
      values()[place(h, row, u)] = contents_.unit<T>(1, h, p, u);
    }
    positions_of(h)[row] = static_cast<std::int32_t>(p);
    held_[static_cast<std::size_t>(h)].push_back(static_cast<std::int32_t>(p));
  }

  CacheLayout layout_;
  EngineShape shape_;
  TokenContents contents_;
  std::shared_ptr<CacheMemory<T>> memory_;
  PagePool pages_;
  std::vector<std::int64_t> starts_;  // of the heads in positions, and in rows that are not paged
  std::vector<std::int32_t> positions_;
  std::shared_ptr<CacheMemory<T>> other_;  // ragged: what the next rebuilding writes to
  std::vector<std::int32_t> other_positions_;
  std::vector<float> scales_;  // of the heads, for float8
  std::vector<std::int64_t> offsets_;
  std::vector<T*> key_table_;
  std::vector<T*> value_table_;
  std::vector<std::int32_t*> position_table_;
  std::vector<std::vector<std::int32_t>> held_;
};

}  // namespace kvevict_test
