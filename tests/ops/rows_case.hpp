// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "kvevict/core/rows_view.hpp"
#include "reference/types.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace kvevict_test {

// How the rows of all heads lie in memory. The first four need heads of equal length.
enum class RowsForm {
  head_first,        // [head][row][dim]
  row_first,         // [row][head][dim]
  padded,            // unused elements behind every row and head
  channels_strided,  // [head][dim][row]: the channels of a row lie far apart
  packed,            // ragged, one element of padding behind each row
  per_head,          // a table of pointers in no order, every second element used
  paged,             // [page][row][head][dim], 16 rows a page, one table for all heads
  paged_by_head      // pages of 5 padded rows, every head has pages of its own
};

inline constexpr RowsForm uniform_forms[] = {
    RowsForm::head_first, RowsForm::row_first, RowsForm::padded, RowsForm::channels_strided,
    RowsForm::packed,     RowsForm::per_head,  RowsForm::paged,  RowsForm::paged_by_head};
inline constexpr RowsForm ragged_forms[] = {RowsForm::packed, RowsForm::per_head, RowsForm::paged,
                                            RowsForm::paged_by_head};

// Rows of random numbers in one of the forms, and the same numbers in double, after their rounding
// to the element type. Memory that belongs to no row is NaN, so that a stray read shows. Rows of
// quantised blocks can be had too: their dimensions here count blocks, but for those of views.
template <class T>
class RowsCase {
 public:
  RowsCase(RowsForm form, std::vector<std::int64_t> rows, std::int64_t dim, std::uint64_t seed,
           Shape shape = Shape::normal)
      : RowsCase(form, std::move(rows), dim) {
    fill([&](std::int64_t h) {
      return random_values(shape, rows_[index(h)] * dim_, seed * 1000 + index(h));
    });
  }

  // `of(h)` gives the values of head h as contiguous floats [row][dim].
  template <class Values>
  void fill(Values&& of) {
    exact_.clear();
    for (std::int64_t h = 0; h < heads(); ++h) {
      const std::vector<float> values = of(h);
      const auto head = writable().head(h);
      reference::Matrix& exact = exact_.emplace_back(index(head.rows), index(dim_));
      for (std::int64_t i = 0; i < head.rows; ++i) {
        for (std::int64_t c = 0; c < dim_; ++c) {
          head(i, c) = static_cast<T>(values[index(i * dim_ + c)]);
          exact(index(i), index(c)) = static_cast<double>(static_cast<float>(head(i, c)));
        }
      }
    }
  }

  // Rows that are stored already: `of(h)` gives those of head h as contiguous [row][dim].
  template <class Stored>
  static RowsCase of_stored(RowsForm form, std::vector<std::int64_t> rows, std::int64_t dim,
                            Stored&& of) {
    RowsCase out(form, std::move(rows), dim);
    for (std::int64_t h = 0; h < out.heads(); ++h) {
      const std::vector<T> stored = of(h);
      const auto head = out.writable().head(h);
      for (std::int64_t i = 0; i < head.rows * dim; ++i) {
        head(i / dim, i % dim) = stored[index(i)];
      }
    }
    return out;
  }

  // Tables point into the memory of their own case, so a copy has to be asked for.
  RowsCase(const RowsCase&) = delete;
  RowsCase& operator=(const RowsCase&) = delete;
  RowsCase(RowsCase&&) = default;
  RowsCase& operator=(RowsCase&&) = delete;
  ~RowsCase() = default;
  RowsCase copy() const {
    RowsCase other(form_, rows_, dim_);
    other.memory_ = memory_;
    other.exact_ = exact_;
    other.point();
    return other;
  }

  std::int64_t heads() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t dim() const { return dim_; }
  const reference::Heads& exact() const { return exact_; }
  kvevict::RowLayout<> layout() const {
    return uniform() && !knows_ragged_heads()
               ? kvevict::RowLayout<>::uniform(heads(), heads() == 0 ? 0 : rows_[0])
               : kvevict::RowLayout<>::ragged(offsets_.data(), heads());
  }
  kvevict::RowsView<T> writable() { return view_of<T>(memory_.data(), table_.data()); }
  kvevict::RowsView<const T> view() const {
    return view_of<const T>(memory_.data(), table_.data());
  }

  // What a failing test says about the case.
  std::string describe() const {
    std::string text = "form ";
    text.append(std::to_string(static_cast<int>(form_))).append(", dim ");
    text.append(std::to_string(dim_)).append(", rows");
    for (const std::int64_t n : rows_) text.append(" ").append(std::to_string(n));
    return text;
  }

  // Everything, padding included.
  const std::vector<T>& memory() const { return memory_; }

 private:
  RowsCase(RowsForm form, std::vector<std::int64_t> rows, std::int64_t dim)
      : form_(form), rows_(std::move(rows)), dim_(dim) {
    offsets_.push_back(0);
    for (const std::int64_t n : rows_) offsets_.push_back(offsets_.back() + n);
    place();
    point();
  }

  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  bool uniform() const {
    return std::all_of(rows_.begin(), rows_.end(),
                       [&](std::int64_t n) { return n == rows_.front(); });
  }

  bool knows_ragged_heads() const {
    return std::any_of(std::begin(ragged_forms), std::end(ragged_forms),
                       [&](RowsForm form) { return form == form_; });
  }

  void place() {
    const std::int64_t n = rows_.empty() ? 0 : rows_[0];
    switch (form_) {
      case RowsForm::head_first:
        set_strides(n * dim_, dim_, 1, heads() * n * dim_);
        break;
      case RowsForm::row_first:
        set_strides(dim_, std::max<std::int64_t>(heads(), 1) * dim_, 1, heads() * n * dim_);
        break;
      case RowsForm::padded:
        set_strides(n * (dim_ + 3) + 5, dim_ + 3, 1, heads() * (n * (dim_ + 3) + 5));
        break;
      case RowsForm::channels_strided:
        set_strides(dim_ * (n + 1), 1, n + 1, heads() * dim_ * (n + 1));
        break;
      case RowsForm::packed:
        set_strides(0, dim_ + 1, 1, offsets_.back() * (dim_ + 1));
        break;
      case RowsForm::per_head:
        set_strides(0, 2 * dim_ + 1, 2, offsets_.back() * (2 * dim_ + 1) + 7 * heads());
        break;
      case RowsForm::paged:
        page_ = kvevict::PageLayout::nhd(16, std::max<std::int64_t>(heads(), 1), dim_);
        number_pages(1);
        break;
      case RowsForm::paged_by_head:
        page_ = {5, 1, 5 * (dim_ + 1) + 3, 0, dim_ + 1, 1};
        number_pages(heads());
        break;
    }
  }

  // Pages in no order, some of the pool unused; entries that no row needs point nowhere.
  void number_pages(std::int64_t tables) {
    pages_.tables = std::max<std::int64_t>(tables, 1);
    pages_.heads_per_table = tables == 1 ? std::max<std::int64_t>(heads(), 1) : 1;
    std::int64_t longest = 0;
    for (const std::int64_t n : rows_) longest = std::max(longest, n);
    pages_.stride = (longest + page_.rows - 1) / page_.rows + 1;
    page_ids_.assign(index(pages_.tables * pages_.stride), -1);
    std::int64_t used = 0;
    for (std::int64_t t = 0; t < tables; ++t) {
      const std::int64_t n = tables == 1 ? longest : rows_[index(t)];
      for (std::int64_t i = 0; i * page_.rows < n; ++i) {
        page_ids_[index(t * pages_.stride + i)] = static_cast<std::int32_t>(++used);
      }
    }
    pages_.pages = used + 2;
    for (std::int32_t& id : page_ids_) {
      if (id > 0) id = static_cast<std::int32_t>(pages_.pages - 1 - id);  // the last page first
    }
    set_strides(page_.head_stride, page_.row_stride, 1, pages_.pages * page_.stride);
  }

  void point() {
    std::int64_t end = 0;
    table_.resize(rows_.size());
    for (std::int64_t h = heads() - 1; h >= 0; --h) {  // the last head first
      table_[index(h)] = memory_.data() + end;
      end += rows_[index(h)] * row_stride_ + 7;
    }
  }

  void set_strides(std::int64_t head, std::int64_t row, std::int64_t channel, std::int64_t size) {
    head_stride_ = head;
    row_stride_ = row;
    channel_stride_ = channel;
    memory_.resize(index(size + 1));
    std::memset(static_cast<void*>(memory_.data()), 0xff, memory_.size() * sizeof(T));
  }

  template <class U, class Memory, class Table>
  kvevict::RowsView<U> view_of(Memory memory, Table table) const {
    const std::int64_t channels = dim_ * kvevict::channels_of<U>;
    if (form_ == RowsForm::packed) {
      return kvevict::RowsView<U>::packed(memory, layout(), channels, row_stride_, channel_stride_);
    }
    if (form_ == RowsForm::per_head) {
      return kvevict::RowsView<U>::per_head(table, layout(), channels, row_stride_,
                                            channel_stride_);
    }
    if (form_ == RowsForm::paged || form_ == RowsForm::paged_by_head) {
      kvevict::PageTable<> pages = pages_;
      pages.ids = page_ids_.data();
      return kvevict::RowsView<U>::paged(memory, page_, pages, layout(), channels);
    }
    return kvevict::RowsView<U>::strided(memory, heads(), rows_.empty() ? 0 : rows_[0], channels,
                                         head_stride_, row_stride_, channel_stride_);
  }

  RowsForm form_;
  std::vector<std::int64_t> rows_;
  std::int64_t dim_;
  std::int64_t head_stride_ = 0;
  std::int64_t row_stride_ = 0;
  std::int64_t channel_stride_ = 0;
  std::vector<std::int64_t> offsets_;
  std::vector<T> memory_;
  std::vector<T*> table_;
  kvevict::PageLayout page_;
  kvevict::PageTable<> pages_;
  std::vector<std::int32_t> page_ids_;
  reference::Heads exact_;
};

// All channels of all rows, head by head.
template <class T>
std::vector<double> numbers_of(const kvevict::RowsView<T>& rows) {
  std::vector<double> numbers;
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    const auto head = rows.head(h);
    for (std::int64_t i = 0; i < head.rows; ++i) {
      for (std::int64_t c = 0; c < head.dim; ++c) {
        numbers.push_back(static_cast<double>(static_cast<float>(head(i, c))));
      }
    }
  }
  return numbers;
}

// Calls `use(rows)` for rows of every form, of lengths around the 128 rows that the CPU backend
// converts at a time, and of every dimension up to the largest of `dims`.
template <class T, class Use>
void for_each_rows_case(Use&& use,
                        std::initializer_list<std::int64_t> dims = {1, 2, 3, 7, 8, 17, 64, 130}) {
  std::uint64_t seed = 1;
  const auto run = [&](RowsForm form, const std::vector<std::int64_t>& rows, std::int64_t dim) {
    if (case_runs(seed)) use(RowsCase<T>(form, rows, dim, seed));
    ++seed;
  };
  for (const std::int64_t dim : dims) {
    for (const RowsForm form : uniform_forms) {
      run(form, {129, 129}, dim);
    }
    for (const RowsForm form : ragged_forms) {
      run(form, {5, 0, 129, 1, 257, 128}, dim);
    }
  }
  for (std::int64_t dim = 1; dim <= std::max(dims); ++dim) {
    run(RowsForm::packed, {3, 2}, dim);
  }
  for (const std::int64_t rows : {0, 1, 2, 127, 128, 257}) {
    run(RowsForm::head_first, {rows, rows, rows}, 17);
    run(RowsForm::channels_strided, {rows}, 8);
  }
  run(RowsForm::packed, {}, 8);
}

}  // namespace kvevict_test
