// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/element.hpp"
#include "kvevict/core/error.hpp"
#include "kvevict/core/memory_space.hpp"

namespace kvevict {

/// Queries of all query heads, [query_head][query][dim], of an element type known at run time
/// (engines compute queries in other types than they cache keys in, and queries are few). Query
/// head h belongs to KV head h / group, group = query heads / KV heads. Heads lie at `base + head *
/// head_stride`, or at the pointers of a table when they come from several layers or sequences.
/// Strides count elements.
template <MemorySpace S = MemorySpace::host>
class QueriesView {
 public:
  QueriesView() = default;

  /// Contiguous [query_head][query][dim].
  template <Element T>
  static QueriesView packed(const T* base, std::int64_t heads, std::int64_t count,
                            std::int64_t dim) {
    return strided(base, heads, count, dim, count * dim, dim);
  }

  template <Element T>
  static QueriesView strided(const T* base, std::int64_t heads, std::int64_t count,
                             std::int64_t dim, std::int64_t head_stride, std::int64_t row_stride) {
    QueriesView view(element_type_of<T>, heads, count, dim, row_stride);
    require(base != nullptr || heads * count == 0, "queries", "null", "a pointer to the queries");
    view.base_ = base;
    view.head_stride_ = head_stride;
    return view;
  }

  template <Element T>
  static QueriesView per_head(const T* const* table, std::int64_t heads, std::int64_t count,
                              std::int64_t dim, std::int64_t row_stride) {
    QueriesView view(element_type_of<T>, heads, count, dim, row_stride);
    require(table != nullptr || heads == 0, "queries", "null", "one pointer for each query head");
    view.table_ = reinterpret_cast<const void* const*>(table);
    return view;
  }

  KVEVICT_HOST_DEVICE std::int64_t heads() const { return heads_; }
  /// Queries of each head.
  KVEVICT_HOST_DEVICE std::int64_t count() const { return count_; }
  KVEVICT_HOST_DEVICE std::int64_t dim() const { return dim_; }
  KVEVICT_HOST_DEVICE std::int64_t row_stride() const { return row_stride_; }
  KVEVICT_HOST_DEVICE ElementType type() const { return type_; }

  /// First element of query `first` of a head.
  KVEVICT_HOST_DEVICE const void* row(std::int64_t head, std::int64_t first) const {
    const void* start = table_ != nullptr ? table_[head] : base_;
    const std::int64_t offset = (table_ != nullptr ? 0 : head * head_stride_) + first * row_stride_;
    return static_cast<const char*>(start) + (offset + first_ * row_stride_) * size_of(type_);
  }

  /// One number, widened. Branches on the type: loops over many numbers do so once, around `row`.
  KVEVICT_HOST_DEVICE float at(std::int64_t head, std::int64_t query, std::int64_t channel) const {
    const void* first = row(head, query);
    switch (type_) {
      case ElementType::float32:
        return static_cast<const float*>(first)[channel];
      case ElementType::float16:
        return static_cast<const half*>(first)[channel];
      case ElementType::bfloat16:
        break;
    }
    return static_cast<const bfloat16*>(first)[channel];
  }

  /// The first `count` queries of every head.
  KVEVICT_HOST_DEVICE QueriesView first(std::int64_t count) const {
    QueriesView view = *this;
    view.count_ = count;
    return view;
  }

  /// The last `count` queries of every head.
  KVEVICT_HOST_DEVICE QueriesView last(std::int64_t count) const {
    QueriesView view = *this;
    view.first_ = first_ + count_ - count;
    view.count_ = count;
    return view;
  }

 private:
  QueriesView(ElementType type, std::int64_t heads, std::int64_t count, std::int64_t dim,
              std::int64_t row_stride)
      : heads_(heads), count_(count), dim_(dim), row_stride_(row_stride), type_(type) {
    require(heads >= 0, "queries.heads", heads, ">=", 0);
    require(count >= 0, "queries.count", count, ">=", 0);
    require(dim >= 1, "queries.dim", dim, ">=", 1);
    require(row_stride >= 1, "queries.row_stride", row_stride, ">=", 1);
  }

  std::int64_t heads_ = 0;
  std::int64_t count_ = 0;
  std::int64_t dim_ = 0;
  std::int64_t row_stride_ = 0;
  std::int64_t head_stride_ = 0;
  std::int64_t first_ = 0;
  const void* base_ = nullptr;
  const void* const* table_ = nullptr;
  ElementType type_ = ElementType::float32;
};

/// Positions of the queries of a QueriesView: ascending integers shared by all heads, or one array
/// for each KV head (sequences of a batch that stand at different places).
template <MemorySpace S = MemorySpace::host>
class QueryPositions {
 public:
  QueryPositions() = default;

  /// Query i stands at `first + i`.
  static QueryPositions consecutive(std::int32_t first) {
    QueryPositions p;
    p.given_ = true;
    p.first_ = first;
    return p;
  }
  static QueryPositions shared(const std::int32_t* array) {
    QueryPositions p;
    p.given_ = true;
    p.array_ = array;
    return p;
  }
  static QueryPositions per_head(const std::int32_t* const* table) {
    QueryPositions p;
    p.given_ = true;
    p.table_ = table;
    return p;
  }

  /// False for a default-constructed object: positions have no default where a mask depends on
  /// them.
  bool given() const { return given_; }

  KVEVICT_HOST_DEVICE std::int32_t at(std::int64_t kv_head, std::int64_t query) const {
    const std::int64_t i = query + offset_;
    if (table_ != nullptr) return table_[kv_head][i];
    return array_ != nullptr ? array_[i] : static_cast<std::int32_t>(first_ + i);
  }

  /// Positions without their first `count`.
  KVEVICT_HOST_DEVICE QueryPositions skip(std::int64_t count) const {
    QueryPositions p = *this;
    p.offset_ += count;
    return p;
  }

 private:
  bool given_ = false;
  std::int32_t first_ = 0;
  std::int64_t offset_ = 0;
  const std::int32_t* array_ = nullptr;
  const std::int32_t* const* table_ = nullptr;
};

/// A position that splits each head's rows in two: that of the first query of a window, or none.
template <MemorySpace S = MemorySpace::host>
struct PositionBound {
  QueryPositions<S> positions = {};
  bool given = false;

  static PositionBound at_first(const QueryPositions<S>& positions) { return {positions, true}; }

  /// The bound for one KV head; beyond every position when none is given.
  KVEVICT_HOST_DEVICE std::int64_t of(std::int64_t kv_head) const {
    return given ? std::int64_t{positions.at(kv_head, 0)} : INT64_MAX;
  }
};

}  // namespace kvevict
