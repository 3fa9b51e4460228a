// SPDX-License-Identifier: Apache-2.0
#include "gguf.hpp"

#include <bit>
#include <cstring>
#include <utility>

#include "byte_reader.hpp"
#include "error.hpp"
#include "gguf_values.hpp"

namespace mini_llama {
namespace {

constexpr std::string_view magic = "GGUF";
constexpr std::size_t max_name_bytes = 65535;
constexpr std::uint64_t max_alignment = std::uint64_t{1} << 20;
// Smallest possible entries: empty key, type, one byte; empty name, one dimension, type, offset.
constexpr std::uint64_t min_metadata_bytes = 8 + 4 + 1;
constexpr std::uint64_t min_tensor_bytes = 8 + 4 + 8 + 4 + 8;

std::string read_name(ByteReader& reader, std::string_view what) {
  const std::string_view name = reader.read_string(what);
  if (name.size() > max_name_bytes) {
    reader.fail(what, concat("is ", name.size(), " bytes long, the limit is ", max_name_bytes));
  }
  return std::string(name);
}

// A tensor entry before its data can be located: offsets count from the end of all entries.
struct PendingTensor {
  std::string name;
  TensorInfo info;
  std::uint64_t offset;
  std::uint64_t bytes;
};

PendingTensor read_tensor_entry(ByteReader& reader) {
  PendingTensor tensor{read_name(reader, "tensor name"), {}, 0, 0};
  const std::string what = concat("tensor '", tensor.name, "'");
  const auto dimensions = reader.read<std::uint32_t>(what);
  tensor.info.shape.fill(1);
  if (dimensions < 1 || dimensions > tensor.info.shape.size()) {
    reader.fail(what, concat("has ", dimensions, " dimensions, 1 to 4 are possible"));
  }
  std::uint64_t elements = 1;
  for (std::uint32_t i = 0; i < dimensions; ++i) {
    const auto extent = reader.read<std::uint64_t>(what);
    // The bound keeps element and byte counts inside of signed 64 bits.
    const std::uint64_t bound = (std::uint64_t{1} << 60) / elements;
    if (extent < 1 || extent > bound) {
      reader.fail(what, concat("dimension ", i, " is ", extent, ", allowed are 1 to ", bound));
    }
    tensor.info.shape[i] = extent;
    elements *= extent;
  }
  const auto type_number = reader.read<std::uint32_t>(what);
  const TensorTypeInfo* type = find_tensor_type(type_number);
  if (type == nullptr) {
    std::string known;
    for (const TensorTypeInfo& info : tensor_types) known += concat(" ", info.name);
    reader.fail(what, concat("type number ", type_number, " is not supported, these are:", known));
  }
  if (tensor.info.shape[0] % type->block_elements != 0) {
    reader.fail(what, concat("rows have ", tensor.info.shape[0], " elements, ", type->name,
                             " needs a multiple of ", type->block_elements));
  }
  tensor.info.type = type->type;
  tensor.info.elements = elements;
  tensor.bytes = elements / type->block_elements * type->block_bytes;
  tensor.offset = reader.read<std::uint64_t>(what);
  return tensor;
}

std::span<const std::byte> locate(std::span<const std::byte> image, std::string_view file,
                                  const PendingTensor& tensor, std::uint64_t data_begin,
                                  std::uint64_t alignment) {
  const auto fail = [&](std::string_view problem) {
    throw FileError(concat(file, ": tensor '", tensor.name, "': ", problem));
  };
  if (tensor.offset % alignment != 0) {
    fail(concat("offset is ", tensor.offset, ", must be a multiple of ", alignment));
  }
  const std::uint64_t available = image.size() > data_begin ? image.size() - data_begin : 0;
  if (tensor.offset > available || tensor.bytes > available - tensor.offset) {
    fail(concat("needs ", tensor.bytes, " bytes at offset ", tensor.offset, ", the file has ",
                available, " bytes of tensor data"));
  }
  return image.subspan(data_begin + tensor.offset, tensor.bytes);
}

}  // namespace

GgufFile GgufFile::open(const std::filesystem::path& path) {
  MappedFile mapping(path);
  GgufFile file = parse(mapping.bytes(), path.string());
  file.mapping_ = std::move(mapping);
  return file;
}

GgufFile GgufFile::parse(std::span<const std::byte> image, std::string name) {
  GgufFile file;
  file.name_ = std::move(name);
  ByteReader reader(image, file.name_);
  const auto head = reader.take(magic.size(), "magic");
  if (std::memcmp(head.data(), magic.data(), magic.size()) != 0) {
    throw FileError(concat(file.name_, ": is no GGUF file: it does not begin with 'GGUF'"));
  }
  file.version_ = reader.read<std::uint32_t>("version");
  if (file.version_ != 2 && file.version_ != 3) {
    reader.fail("version", concat("is ", file.version_, ", supported are 2 and 3, little endian"));
  }
  const auto tensor_count = reader.read<std::uint64_t>("tensor count");
  const auto metadata_count = reader.read<std::uint64_t>("metadata count");
  reader.require_items(metadata_count, min_metadata_bytes, "metadata");
  for (std::uint64_t i = 0; i < metadata_count; ++i) {
    std::string key = read_name(reader, "metadata key");
    const MetadataValue value = read_value(reader, image);
    if (const auto [entry, is_new] = file.metadata_.emplace(std::move(key), value); !is_new) {
      reader.fail("metadata", concat("key '", entry->first, "' occurs twice"));
    }
  }
  if (file.contains("general.alignment")) {
    file.alignment_ = file.unsigned_value("general.alignment");
    if (!std::has_single_bit(file.alignment_) || file.alignment_ > max_alignment) {
      reader.fail("general.alignment",
                  concat("is ", file.alignment_, ", must be a power of two up to ", max_alignment));
    }
  }
  reader.require_items(tensor_count, min_tensor_bytes, "tensors");
  std::vector<PendingTensor> pending;
  for (std::uint64_t i = 0; i < tensor_count; ++i) pending.push_back(read_tensor_entry(reader));

  const std::uint64_t mask = file.alignment_ - 1;
  const std::uint64_t data_begin = (reader.offset() + mask) & ~mask;
  for (PendingTensor& tensor : pending) {
    tensor.info.data = locate(image, file.name_, tensor, data_begin, file.alignment_);
    if (const auto [entry, is_new] = file.tensors_.emplace(tensor.name, tensor.info); !is_new) {
      reader.fail("tensors", concat("'", entry->first, "' occurs twice"));
    }
  }
  return file;
}

const MetadataValue& GgufFile::value(std::string_view key) const {
  const auto entry = metadata_.find(key);
  if (entry == metadata_.end()) throw FileError(concat(name_, ": key '", key, "' is missing"));
  return entry->second;
}

void GgufFile::wrong_kind(std::string_view key, std::string_view wanted) const {
  const MetadataValue& found = value(key);
  throw FileError(concat(name_, ": key '", key, "' must be ", wanted, ", its type number is ",
                         static_cast<std::uint32_t>(found.type), ", its element type ",
                         static_cast<std::uint32_t>(found.element_type)));
}

std::uint64_t GgufFile::unsigned_value(std::string_view key) const {
  const MetadataValue& found = value(key);
  const auto decoded = decode_integer(found.type, found.bytes.data());
  if (!decoded || *decoded < 0) wrong_kind(key, "an integer from 0 to 2^63-1");
  return static_cast<std::uint64_t>(*decoded);
}

double GgufFile::number(std::string_view key) const {
  const MetadataValue& found = value(key);
  if (found.type == ValueType::f32) return load_unaligned<float>(found.bytes.data());
  if (found.type == ValueType::f64) return load_unaligned<double>(found.bytes.data());
  wrong_kind(key, "a floating point number");
}

bool GgufFile::flag(std::string_view key) const {
  const MetadataValue& found = value(key);
  if (found.type != ValueType::boolean) wrong_kind(key, "a boolean");
  return found.bytes.front() != std::byte{0};
}

std::string_view GgufFile::text(std::string_view key) const {
  const MetadataValue& found = value(key);
  if (found.type != ValueType::string) wrong_kind(key, "a string");
  return ByteReader(found.bytes, name_).read_string(key);
}

std::vector<std::string_view> GgufFile::text_list(std::string_view key) const {
  const MetadataValue& found = value(key);
  if (found.type != ValueType::array || found.element_type != ValueType::string) {
    wrong_kind(key, "an array of strings");
  }
  std::vector<std::string_view> list;
  list.reserve(found.count);
  ByteReader reader(found.bytes, name_);
  for (std::uint64_t i = 0; i < found.count; ++i) list.push_back(reader.read_string(key));
  return list;
}

std::vector<std::int64_t> GgufFile::integer_list(std::string_view key) const {
  const MetadataValue& found = value(key);
  if (found.type != ValueType::array) wrong_kind(key, "an array of integers");
  std::vector<std::int64_t> list;
  list.reserve(found.count);
  const std::uint64_t size = fixed_size(found.element_type);
  for (std::uint64_t i = 0; i < found.count; ++i) {
    const auto decoded = decode_integer(found.element_type, found.bytes.data() + i * size);
    if (!decoded) wrong_kind(key, "an array of integers up to 2^63-1");
    list.push_back(*decoded);
  }
  return list;
}

const TensorInfo& GgufFile::tensor(std::string_view name) const {
  const auto entry = tensors_.find(name);
  if (entry == tensors_.end()) throw FileError(concat(name_, ": tensor '", name, "' is missing"));
  return entry->second;
}

}  // namespace mini_llama
