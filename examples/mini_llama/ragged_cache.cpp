// SPDX-License-Identifier: Apache-2.0
#include "ragged_cache.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "error.hpp"
#include "half.hpp"

namespace mini_llama {
namespace {

// Grows by an eighth when full. The usual doubling would take back what an eviction has freed with
// the first token decoded after it.
template <class T>
void grow(std::vector<T>& items, std::size_t count) {
  const std::size_t needed = items.size() + count;
  if (needed > items.capacity()) items.reserve(needed + needed / 8);
  items.resize(needed);
}

// shrink_to_fit is only a request.
template <class T>
void cut(std::vector<T>& items, std::size_t count) {
  const auto end = items.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<T>(items.begin(), end).swap(items);
}

void store_row(const float* row, Index dim, RowType type, std::byte* out) {
  if (type == RowType::float32) {
    std::memcpy(out, row, to_size(dim) * sizeof(float));
    return;
  }
  for (Index i = 0; i < dim; ++i) {
    const std::uint16_t half = float_to_half(row[i]);
    std::memcpy(out + i * 2, &half, sizeof(half));
  }
}

ConstMatrixView load_rows(const std::byte* rows, Index count, Index dim, RowType type,
                          std::vector<float>& scratch) {
  if (type == RowType::float32) {
    return {reinterpret_cast<const float*>(rows), count, dim, Eigen::OuterStride<>(dim)};
  }
  if (std::ssize(scratch) < count * dim) scratch.resize(to_size(count * dim));
  float* out = scratch.data();
  for (Index i = 0; i < count * dim; ++i) {
    std::uint16_t half;
    std::memcpy(&half, rows + i * 2, sizeof(half));
    out[i] = half_to_float(half);
  }
  return {out, count, dim, Eigen::OuterStride<>(dim)};
}

// The first index whose position does not lie above its predecessor's; -1 if there is none.
Index find_descent(std::span<const std::int32_t> positions, std::int32_t previous) {
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] <= previous) return static_cast<Index>(i);
    previous = positions[i];
  }
  return -1;
}

}  // namespace

RaggedCache::RaggedCache(const CacheShape& shape) : shape_(shape) {
  if (shape.layers < 1 || shape.kv_heads < 1 || shape.key_dim < 1 || shape.value_dim < 1) {
    throw ArgumentError(concat("cache shape is ", shape.layers, " layers, ", shape.kv_heads,
                               " heads, dimensions ", shape.key_dim, " and ", shape.value_dim,
                               "; all must be positive"));
  }
  heads_.resize(to_size(shape.layers * shape.kv_heads));
}

RaggedCache::Head& RaggedCache::at(Index layer, Index head) {
  return const_cast<Head&>(std::as_const(*this).at(layer, head));
}

const RaggedCache::Head& RaggedCache::at(Index layer, Index head) const {
  if (layer < 0 || layer >= shape_.layers || head < 0 || head >= shape_.kv_heads) {
    throw ArgumentError(concat("layer ", layer, ", head ", head, " is outside of a cache of ",
                               shape_.layers, " layers of ", shape_.kv_heads, " heads"));
  }
  return heads_[to_size(layer * shape_.kv_heads + head)];
}

void RaggedCache::require_element_size(std::size_t size) const {
  if (const auto stored = to_size(element_bytes(shape_.row_type)); size != stored) {
    throw ArgumentError(concat("rows are asked for with elements of ", size,
                               " bytes, they are stored with elements of ", stored));
  }
}

void RaggedCache::require_rows(const Head& head, Index begin, Index count) {
  const Index rows = std::ssize(head.positions);
  if (begin < 0 || begin > rows || count < 0 || count > rows - begin) {
    throw ArgumentError(
        concat("rows from ", begin, ", ", count, " of them, of a head that has ", rows));
  }
}

void RaggedCache::advance(std::int32_t tokens) {
  const std::int32_t bound = std::numeric_limits<std::int32_t>::max() - next_position_;
  if (tokens < 0 || tokens > bound) {
    throw ArgumentError(concat("advance: tokens is ", tokens, ", allowed are 0 to ", bound));
  }
  next_position_ += tokens;
}

Index RaggedCache::total_rows() const {
  Index total = 0;
  for (const Head& head : heads_) total += std::ssize(head.positions);
  return total;
}

std::int64_t RaggedCache::bytes() const {
  const auto position_bytes = static_cast<std::int64_t>(sizeof(std::int32_t));
  return total_rows() * (key_bytes() + value_bytes() + position_bytes);
}

std::int64_t RaggedCache::capacity_bytes() const {
  std::size_t total = 0;
  for (const Head& head : heads_) {
    total += head.keys.capacity() + head.values.capacity() +
             head.positions.capacity() * sizeof(std::int32_t);
  }
  return static_cast<std::int64_t>(total);
}

ConstMatrixView RaggedCache::float_keys(Index layer, Index head, Index begin, Index count,
                                        std::vector<float>& scratch) const {
  const Head& source = at(layer, head);
  require_rows(source, begin, count);
  return load_rows(source.keys.data() + begin * key_bytes(), count, shape_.key_dim, shape_.row_type,
                   scratch);
}

ConstMatrixView RaggedCache::float_values(Index layer, Index head, Index begin, Index count,
                                          std::vector<float>& scratch) const {
  const Head& source = at(layer, head);
  require_rows(source, begin, count);
  return load_rows(source.values.data() + begin * value_bytes(), count, shape_.value_dim,
                   shape_.row_type, scratch);
}

void RaggedCache::append(Index layer, Index head, std::span<const std::int32_t> positions,
                         const ConstMatrixRef& keys, const ConstMatrixRef& values) {
  Head& target = at(layer, head);
  const Index count = std::ssize(positions);
  if (keys.rows() != count || keys.cols() != shape_.key_dim || values.rows() != count ||
      values.cols() != shape_.value_dim) {
    throw ArgumentError(concat("append: keys are [", keys.rows(), ", ", keys.cols(),
                               "] and values [", values.rows(), ", ", values.cols(),
                               "], expected [", count, ", ", shape_.key_dim, "] and [", count, ", ",
                               shape_.value_dim, "]"));
  }
  const std::int32_t last = target.positions.empty() ? -1 : target.positions.back();
  if (const Index i = find_descent(positions, last); i >= 0) {
    throw ArgumentError(concat("append: position ", positions[to_size(i)], " of row ", i,
                               " does not lie above the one before it"));
  }
  const Index first = std::ssize(target.positions);
  grow(target.keys, to_size(count * key_bytes()));
  grow(target.values, to_size(count * value_bytes()));
  grow(target.positions, to_size(count));
  std::copy(positions.begin(), positions.end(), target.positions.begin() + first);
  for (Index i = 0; i < count; ++i) {
    store_row(keys.row(i).data(), shape_.key_dim, shape_.row_type,
              target.keys.data() + (first + i) * key_bytes());
    store_row(values.row(i).data(), shape_.value_dim, shape_.row_type,
              target.values.data() + (first + i) * value_bytes());
  }
}

void RaggedCache::shrink(Index layer, Index head, Index rows) {
  Head& target = at(layer, head);
  if (rows < 0 || rows > std::ssize(target.positions)) {
    throw ArgumentError(concat("shrink: rows is ", rows, ", allowed are 0 to ",
                               target.positions.size(), " (layer ", layer, ", head ", head, ")"));
  }
  cut(target.keys, to_size(rows * key_bytes()));
  cut(target.values, to_size(rows * value_bytes()));
  cut(target.positions, to_size(rows));
}

void RaggedCache::rewind(std::int32_t position) {
  for (Head& head : heads_) {
    const auto end = std::lower_bound(head.positions.begin(), head.positions.end(), position);
    const Index rows = end - head.positions.begin();
    head.positions.resize(to_size(rows));
    head.keys.resize(to_size(rows * key_bytes()));
    head.values.resize(to_size(rows * value_bytes()));
  }
  next_position_ = position;
}

void RaggedCache::check() const {
  for (Index i = 0; i < std::ssize(heads_); ++i) {
    const auto& positions = heads_[to_size(i)].positions;
    const auto fail = [&](std::string_view problem) {
      throw ArgumentError(concat("cache, layer ", i / shape_.kv_heads, ", head ",
                                 i % shape_.kv_heads, ": ", problem));
    };
    if (const Index row = find_descent(positions, -1); row >= 0) {
      fail(concat("position ", positions[to_size(row)], " of row ", row,
                  " does not lie above the one before it"));
    }
    if (!positions.empty() && positions.back() >= next_position_) {
      fail(concat("the last position is ", positions.back(), ", the next one of the sequence is ",
                  next_position_));
    }
  }
}

}  // namespace mini_llama
