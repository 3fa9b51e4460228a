// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mapped_file.hpp"
#include "tensor_type.hpp"

namespace mini_llama {

// Types of metadata values, with their numbers in the file.
enum class ValueType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

// One metadata value where it lies in the file, its extent checked. A scalar has count 1 and its
// own type as element type; a string's bytes include its length.
struct MetadataValue {
  ValueType type;
  ValueType element_type;
  std::uint64_t count;
  std::span<const std::byte> bytes;
};

// One tensor. shape[0] is the contiguous dimension (the input features of a matrix), dimensions
// not given are 1; `data` holds exactly the blocks of all elements and lies inside the file.
struct TensorInfo {
  TensorType type;
  std::array<std::uint64_t, 4> shape;
  std::uint64_t elements;
  std::span<const std::byte> data;
};

// Table of contents of a GGUF file, versions 2 and 3, little endian. Reading it checks every
// length, count, type, offset and dimension against the size of the file, so that whatever the
// accessors return can be read without further checks. Any violation is a FileError. Cost: one pass
// over the metadata; tensor data is not touched.
class GgufFile {
 public:
  // Maps the file for the life of the object.
  static GgufFile open(const std::filesystem::path& path);

  // Reads a file image that the caller keeps alive; `name` is used in messages.
  static GgufFile parse(std::span<const std::byte> image, std::string name);

  const std::string& name() const { return name_; }
  std::uint32_t version() const { return version_; }
  std::uint64_t alignment() const { return alignment_; }
  const std::map<std::string, MetadataValue, std::less<>>& metadata() const { return metadata_; }
  const std::map<std::string, TensorInfo, std::less<>>& tensors() const { return tensors_; }

  bool contains(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }

  // The value of a key, converted without loss. Throws FileError if the key is missing or its value
  // is of another kind (an integer key accepts every integer type, as long as the value is >= 0).
  std::uint64_t unsigned_value(std::string_view key) const;
  double number(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::string_view text(std::string_view key) const;
  std::vector<std::string_view> text_list(std::string_view key) const;
  std::vector<std::int64_t> integer_list(std::string_view key) const;

  // The tensor of a name; throws FileError if there is none.
  const TensorInfo& tensor(std::string_view name) const;

 private:
  const MetadataValue& value(std::string_view key) const;
  [[noreturn]] void wrong_kind(std::string_view key, std::string_view wanted) const;

  MappedFile mapping_;
  std::string name_;
  std::uint32_t version_ = 0;
  std::uint64_t alignment_ = 32;
  std::map<std::string, MetadataValue, std::less<>> metadata_;
  std::map<std::string, TensorInfo, std::less<>> tensors_;
};

}  // namespace mini_llama
