// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf.hpp"

namespace mini_llama_test {

using Bytes = std::vector<std::byte>;

template <class T>
void put(Bytes& bytes, T value) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

inline void put_text(Bytes& bytes, std::string_view text) {
  put(bytes, std::uint64_t{text.size()});
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
}

// Writes GGUF images. Field values go out as they are given, so that broken files can be made too.
class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // of the data; the key is written with add()
  std::string magic = "GGUF";
  std::uint64_t extra_tensors = 0;   // added to the true count
  std::uint64_t extra_metadata = 0;  // likewise

  template <class T>
  void add(std::string_view key, mini_llama::ValueType type, T value) {
    begin_value(key, type);
    put(metadata_, value);
  }
  void add(std::string_view key, std::uint32_t value) {
    add(key, mini_llama::ValueType::u32, value);
  }
  void add(std::string_view key, float value) { add(key, mini_llama::ValueType::f32, value); }
  void add(std::string_view key, bool value) {
    add(key, mini_llama::ValueType::boolean, static_cast<std::uint8_t>(value));
  }
  void add(std::string_view key, std::string_view value) {
    begin_value(key, mini_llama::ValueType::string);
    put_text(metadata_, value);
  }
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }

  void add_array_head(std::string_view key, mini_llama::ValueType element, std::uint64_t count) {
    begin_value(key, mini_llama::ValueType::array);
    put(metadata_, static_cast<std::uint32_t>(element));
    put(metadata_, count);
  }
  void add_texts(std::string_view key, const std::vector<std::string>& texts) {
    add_array_head(key, mini_llama::ValueType::string, texts.size());
    for (const std::string& text : texts) put_text(metadata_, text);
  }
  void add_integers(std::string_view key, const std::vector<std::int32_t>& values) {
    add_array_head(key, mini_llama::ValueType::i32, values.size());
    for (const std::int32_t value : values) put(metadata_, value);
  }

  // A tensor entry and its data. The data comes first so that its offset is a multiple of 32.
  void add_tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                  std::uint32_t type, std::span<const std::byte> data) {
    while (data_.size() % alignment != 0) data_.push_back(std::byte{0});
    add_tensor_entry(name, shape, type, data_.size());
    data_.insert(data_.end(), data.begin(), data.end());
  }
  void add_tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                  const std::vector<float>& values) {
    add_tensor(name, shape, 0, std::as_bytes(std::span(values)));
  }
  void add_tensor_entry(std::string_view name, const std::vector<std::uint64_t>& shape,
                        std::uint32_t type, std::uint64_t offset) {
    put_text(entries_, name);
    put(entries_, static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t extent : shape) put(entries_, extent);
    put(entries_, type);
    put(entries_, offset);
    ++tensors_;
  }

  Bytes image() const {
    Bytes bytes;
    for (const char c : magic) bytes.push_back(static_cast<std::byte>(c));
    put(bytes, version);
    put(bytes, tensors_ + extra_tensors);
    put(bytes, values_ + extra_metadata);
    bytes.insert(bytes.end(), metadata_.begin(), metadata_.end());
    bytes.insert(bytes.end(), entries_.begin(), entries_.end());
    if (data_.empty()) return bytes;
    while (bytes.size() % alignment != 0) bytes.push_back(std::byte{0});
    bytes.insert(bytes.end(), data_.begin(), data_.end());
    return bytes;
  }

 private:
  void begin_value(std::string_view key, mini_llama::ValueType type) {
    put_text(metadata_, key);
    put(metadata_, static_cast<std::uint32_t>(type));
    ++values_;
  }

  Bytes metadata_;
  Bytes entries_;
  Bytes data_;
  std::uint64_t values_ = 0;
  std::uint64_t tensors_ = 0;
};

}  // namespace mini_llama_test
