// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/row_layout.hpp"

namespace kvevict {

/// Positions of the rows of one head: `first + i`, or the i-th entry of an ascending array.
template <class Int = const std::int32_t>
struct PositionRow {
  Int* stored = nullptr;
  std::int32_t first = 0;

  KVEVICT_HOST_DEVICE std::int32_t operator[](std::int64_t i) const {
    return stored != nullptr ? stored[i] : static_cast<std::int32_t>(first + i);
  }

  /// Number of the first `rows` rows whose position is below `bound`. Positions ascend, so it is a
  /// binary search.
  KVEVICT_HOST_DEVICE std::int64_t count_below(std::int64_t bound, std::int64_t rows) const {
    std::int64_t low = 0;
    std::int64_t high = rows;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if ((*this)[middle] < bound) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

/// Token positions of cached rows or queries: what causal masks, sinks and spans are named by. A
/// row keeps its position for life, whatever was evicted before it. Never negative; ascending
/// within each head.
/// * `consecutive(first)`: row i has position first + i; nothing is stored (the default, from 0),
/// * `shared(array)`: one array for all heads,
/// * `packed(array)`: all heads one after another, in the order of the row layout,
/// * `per_head(table)`: one array for each head.
template <MemorySpace S = MemorySpace::host, class Int = const std::int32_t>
class Positions {
 public:
  Positions() = default;

  /// Positions that may be written convert to positions that may not.
  template <class Other>
  requires(!std::is_same_v<Int, Other> && std::is_same_v<Int, const Other>) KVEVICT_HOST_DEVICE
      Positions(const Positions<S, Other>& other)
      : form_(static_cast<Form>(other.form_)),
        first_(other.first_),
        array_(other.array_),
        table_(other.table_) {}

  static Positions consecutive(std::int32_t first = 0) {
    Positions p;
    p.first_ = first;
    return p;
  }
  static Positions shared(Int* array) {
    Positions p;
    p.form_ = Form::shared;
    p.array_ = array;
    return p;
  }
  static Positions packed(Int* array) {
    Positions p;
    p.form_ = Form::packed;
    p.array_ = array;
    return p;
  }
  static Positions per_head(Int* const* table) {
    Positions p;
    p.form_ = Form::per_head;
    p.table_ = table;
    return p;
  }

  /// False for `consecutive`, which has nothing to compact.
  bool stored() const { return form_ != Form::consecutive; }
  bool is_shared() const { return form_ == Form::shared; }
  bool is_packed() const { return form_ == Form::packed; }
  /// The position of row 0 of every head, for `consecutive`.
  std::int32_t first() const { return first_; }

  KVEVICT_HOST_DEVICE PositionRow<Int> row(std::int64_t head, const RowLayout<S>& layout) const {
    switch (form_) {
      case Form::shared:
        return {array_, 0};
      case Form::packed:
        return {array_ + layout.offset(head), 0};
      case Form::per_head:
        return {table_[head], 0};
      case Form::consecutive:
        break;
    }
    return {nullptr, first_};
  }

 private:
  template <MemorySpace, class>
  friend class Positions;

  enum class Form { consecutive, shared, packed, per_head };

  Form form_ = Form::consecutive;
  std::int32_t first_ = 0;
  Int* array_ = nullptr;
  Int* const* table_ = nullptr;
};

/// Positions that compaction can move.
template <MemorySpace S = MemorySpace::host>
using MutablePositions = Positions<S, std::int32_t>;

}  // namespace kvevict
