// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "matrix.hpp"

namespace mini_llama {

enum class RowType { float32, float16 };

constexpr std::int64_t element_bytes(RowType type) { return type == RowType::float32 ? 4 : 2; }

struct CacheShape {
  Index layers;
  Index kv_heads;
  Index key_dim;    // of one head
  Index value_dim;  // of one head
  RowType row_type;

  bool operator==(const CacheShape&) const = default;
};

// Keys (after RoPE), values and positions of one sequence, ragged: every (layer, KV head) has its
// own number of rows in contiguous memory of its own. Three numbers are kept apart: the rows of a
// head, the position of each row, and the next position of the sequence, which counts the tokens
// seen and does not change when rows are removed. Within a head positions ascend strictly.
//
// To evict, move the rows to keep to the front through the raw pointers (keys, values and positions
// alike, order kept), then shrink(). Copies are deep.
class RaggedCache {
 public:
  // Throws ArgumentError unless all extents are positive.
  explicit RaggedCache(const CacheShape& shape);

  const CacheShape& shape() const { return shape_; }
  Index rows(Index layer, Index head) const { return std::ssize(at(layer, head).positions); }
  Index total_rows() const;

  // Bytes of keys, values and positions of the rows held, and of the memory allocated for them.
  std::int64_t bytes() const;
  std::int64_t capacity_bytes() const;

  std::int32_t next_position() const { return next_position_; }

  // Counts tokens as seen, after their rows were appended to the heads that keep them.
  void advance(std::int32_t tokens);

  // First element of the rows [rows][dim]; T is any trivially copyable type of the size of the row
  // type's elements, otherwise ArgumentError. Valid until the head's next append or shrink.
  template <class T>
  T* keys(Index layer, Index head) {
    return elements<T>(at(layer, head).keys);
  }
  template <class T>
  const T* keys(Index layer, Index head) const {
    return elements<const T>(at(layer, head).keys);
  }
  template <class T>
  T* values(Index layer, Index head) {
    return elements<T>(at(layer, head).values);
  }
  template <class T>
  const T* values(Index layer, Index head) const {
    return elements<const T>(at(layer, head).values);
  }
  std::int32_t* positions(Index layer, Index head) { return at(layer, head).positions.data(); }
  std::span<const std::int32_t> positions(Index layer, Index head) const {
    return at(layer, head).positions;
  }

  // Rows [begin, begin + count) as fp32 [count, dim]: a view of the storage for float32 rows, of a
  // converted copy in `scratch` for float16 rows. Throws ArgumentError if the head has fewer rows.
  ConstMatrixView float_keys(Index layer, Index head, Index begin, Index count,
                             std::vector<float>& scratch) const;
  ConstMatrixView float_values(Index layer, Index head, Index begin, Index count,
                               std::vector<float>& scratch) const;

  // Appends one row per position from fp32 keys [rows, key_dim] and values [rows, value_dim],
  // rounded to the row type. Throws ArgumentError unless the positions ascend strictly, also from
  // the head's last row on, and the shapes agree. Different heads may append at the same time.
  void append(Index layer, Index head, std::span<const std::int32_t> positions,
              const ConstMatrixRef& keys, const ConstMatrixRef& values);

  // Keeps the first `rows` rows of a head and gives the memory of the others back to the allocator.
  // Throws ArgumentError if the head has fewer.
  void shrink(Index layer, Index head, Index rows);

  // Removes all rows at `position` or later and makes it the next position: undoes a forward pass
  // that failed half-way. Keeps the memory.
  void rewind(std::int32_t position);

  // Throws ArgumentError unless every head's positions ascend strictly from 0 or more and end below
  // next_position(). Cost: one pass over the positions.
  void check() const;

 private:
  struct Head {
    std::vector<std::byte> keys;
    std::vector<std::byte> values;
    std::vector<std::int32_t> positions;
  };

  Head& at(Index layer, Index head);
  const Head& at(Index layer, Index head) const;
  std::int64_t key_bytes() const { return shape_.key_dim * element_bytes(shape_.row_type); }
  std::int64_t value_bytes() const { return shape_.value_dim * element_bytes(shape_.row_type); }
  void require_element_size(std::size_t size) const;
  static void require_rows(const Head& head, Index begin, Index count);

  template <class T, class Bytes>
  T* elements(Bytes& bytes) const {
    static_assert(std::is_trivially_copyable_v<T>);
    require_element_size(sizeof(T));
    return reinterpret_cast<T*>(bytes.data());
  }

  CacheShape shape_;
  std::vector<Head> heads_;  // [layer][head]
  std::int32_t next_position_ = 0;
};

}  // namespace mini_llama
