// SPDX-License-Identifier: Apache-2.0
#include "gguf_values.hpp"

#include <limits>

namespace mini_llama {
namespace {

// The format sets no limit; no known file nests arrays at all.
constexpr int max_array_depth = 4;

ValueType read_type(ByteReader& reader, std::string_view what) {
  const auto number = reader.read<std::uint32_t>(what);
  if (number > static_cast<std::uint32_t>(ValueType::f64)) {
    reader.fail(what, concat("type number is ", number, ", the last known one is 12"));
  }
  return static_cast<ValueType>(number);
}

void skip_elements(ByteReader& reader, ValueType type, std::uint64_t count, int depth);

struct ArrayHead {
  ValueType element_type;
  std::uint64_t count;
};

ArrayHead skip_array(ByteReader& reader, int depth) {
  if (depth == 0) reader.fail("array", concat("nested deeper than ", max_array_depth));
  const ValueType type = read_type(reader, "array element type");
  const auto count = reader.read<std::uint64_t>("array length");
  skip_elements(reader, type, count, depth - 1);
  return {type, count};
}

void skip_elements(ByteReader& reader, ValueType type, std::uint64_t count, int depth) {
  if (const std::uint64_t size = fixed_size(type); size > 0) {
    reader.require_items(count, size, "array");
    reader.take(count * size, "array");
    return;
  }
  const bool is_string = type == ValueType::string;
  reader.require_items(count, is_string ? 8 : 12, "array");
  for (std::uint64_t i = 0; i < count; ++i) {
    if (is_string) {
      reader.read_string("string in array");
    } else {
      skip_array(reader, depth);
    }
  }
}

template <class T>
std::optional<std::int64_t> widen(const std::byte* bytes) {
  return static_cast<std::int64_t>(load_unaligned<T>(bytes));
}

}  // namespace

std::uint64_t fixed_size(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    case ValueType::string:
    case ValueType::array:
      break;
  }
  return 0;
}

MetadataValue read_value(ByteReader& reader, std::span<const std::byte> image) {
  const ValueType type = read_type(reader, "metadata value type");
  MetadataValue value{type, type, 1, {}};
  std::uint64_t begin = reader.offset();
  if (type == ValueType::array) {
    const ArrayHead head = skip_array(reader, max_array_depth);
    value.element_type = head.element_type;
    value.count = head.count;
    begin += sizeof(std::uint32_t) + sizeof(std::uint64_t);
  } else if (type == ValueType::string) {
    reader.read_string("metadata string");
  } else {
    reader.take(fixed_size(type), "metadata value");
  }
  value.bytes = image.subspan(begin, reader.offset() - begin);
  return value;
}

std::optional<std::int64_t> decode_integer(ValueType type, const std::byte* bytes) {
  switch (type) {
    case ValueType::u8:
      return widen<std::uint8_t>(bytes);
    case ValueType::i8:
      return widen<std::int8_t>(bytes);
    case ValueType::u16:
      return widen<std::uint16_t>(bytes);
    case ValueType::i16:
      return widen<std::int16_t>(bytes);
    case ValueType::u32:
      return widen<std::uint32_t>(bytes);
    case ValueType::i32:
      return widen<std::int32_t>(bytes);
    case ValueType::i64:
      return widen<std::int64_t>(bytes);
    case ValueType::u64: {
      const auto value = load_unaligned<std::uint64_t>(bytes);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) break;
      return static_cast<std::int64_t>(value);
    }
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace mini_llama
