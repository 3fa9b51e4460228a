// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

namespace kvevict_test {

// Where the elements [head, row, channel] of a tensor lie: strides in elements, channels adjacent.
struct StridedLayout {
  std::int64_t heads = 0;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;

  // Heads one after another, `pad` unused elements behind each row and each head.
  static StridedLayout hnd(std::int64_t heads, std::int64_t rows, std::int64_t dim,
                           std::int64_t pad) {
    return {heads, rows, dim, rows * (dim + pad) + pad, dim + pad};
  }
  // Heads interleaved inside a row, `pad` unused elements behind each head and each row.
  static StridedLayout nhd(std::int64_t heads, std::int64_t rows, std::int64_t dim,
                           std::int64_t pad) {
    return {heads, rows, dim, dim + pad, heads * (dim + pad) + pad};
  }

  std::int64_t offset(std::int64_t head, std::int64_t row, std::int64_t channel) const {
    return head * head_stride + row * row_stride + channel;
  }
};

// Memory for a strided tensor in which every byte that belongs to no element is a guard. All bytes
// are 0xff at first: guards read as NaN in every floating-point type (a stray read poisons the
// result) and a stray write changes them. Elements are to be written before they are read.
template <class T>
class GuardedBuffer {
 public:
  explicit GuardedBuffer(const StridedLayout& layout, std::int64_t margin = 64)
      : layout_(layout), margin_(margin) {
    const std::int64_t last = layout.heads == 0 || layout.rows == 0 || layout.dim == 0
                                  ? 0
                                  : layout.offset(layout.heads - 1, layout.rows - 1, layout.dim);
    storage_.resize(static_cast<std::size_t>(last + 2 * margin));
    std::memset(static_cast<void*>(storage_.data()), guard_byte, storage_.size() * sizeof(T));
    owned_.resize(storage_.size(), false);
    for_each_element([this](std::int64_t index) {
      if (owned_[static_cast<std::size_t>(index)]) {
        throw std::invalid_argument("elements of the layout overlap");
      }
      owned_[static_cast<std::size_t>(index)] = true;
    });
  }

  const StridedLayout& layout() const { return layout_; }
  T* data() { return storage_.data() + margin_; }
  const T* data() const { return storage_.data() + margin_; }
  T& at(std::int64_t head, std::int64_t row, std::int64_t channel) {
    return data()[layout_.offset(head, row, channel)];
  }
  const T& at(std::int64_t head, std::int64_t row, std::int64_t channel) const {
    return data()[layout_.offset(head, row, channel)];
  }

  // Writes contiguous values [head, row, channel] into the elements.
  template <class Values>
  void assign(const Values& values) {
    std::size_t next = 0;
    if (static_cast<std::int64_t>(values.size()) != layout_.heads * layout_.rows * layout_.dim) {
      throw std::invalid_argument("the number of values does not match the layout");
    }
    for_each_element([&](std::int64_t index) {
      storage_[static_cast<std::size_t>(index)] = static_cast<T>(values[next++]);
    });
  }

  // The elements as contiguous values [head, row, channel].
  std::vector<T> values() const {
    std::vector<T> out;
    for_each_element(
        [&](std::int64_t index) { out.push_back(storage_[static_cast<std::size_t>(index)]); });
    return out;
  }

  // Offset in elements from data() of the first changed guard; nothing when all are intact.
  std::optional<std::int64_t> first_broken_guard() const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      if (owned_[i]) continue;
      unsigned char bytes[sizeof(T)];
      std::memcpy(bytes, &storage_[i], sizeof(T));
      for (const unsigned char byte : bytes) {
        if (byte != guard_byte) return static_cast<std::int64_t>(i) - margin_;
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr unsigned char guard_byte = 0xff;

  template <class F>
  void for_each_element(F&& f) const {
    for (std::int64_t head = 0; head < layout_.heads; ++head) {
      for (std::int64_t row = 0; row < layout_.rows; ++row) {
        for (std::int64_t channel = 0; channel < layout_.dim; ++channel) {
          f(margin_ + layout_.offset(head, row, channel));
        }
      }
    }
  }

  StridedLayout layout_;
  std::int64_t margin_;
  std::vector<T> storage_;
  std::vector<bool> owned_;
};

}  // namespace kvevict_test
