// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "byte_reader.hpp"
#include "gguf.hpp"

namespace mini_llama {

// Bytes of a value of this type, 0 for strings and arrays, whose size depends on their content.
std::uint64_t fixed_size(ValueType type);

// Reads the type number and the value that follow a key, and returns where the value lies. Arrays
// may hold arrays down to a small depth. Throws FileError.
MetadataValue read_value(ByteReader& reader, std::span<const std::byte> image);

// The integer stored at `bytes`; nothing if the type is no integer or the value exceeds int64.
std::optional<std::int64_t> decode_integer(ValueType type, const std::byte* bytes);

}  // namespace mini_llama
