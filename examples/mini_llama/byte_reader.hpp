// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "error.hpp"

namespace mini_llama {

static_assert(std::endian::native == std::endian::little,
              "GGUF files are little endian and are read without swapping");

// The T stored at `bytes`, which need not be aligned for T.
template <class T>
T load_unaligned(const std::byte* bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// Reads a byte range from front to back; every read is checked against what is left. `what` names
// the thing read in the FileError of a failed check.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view file)
      : bytes_(bytes), file_(file) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t remaining() const { return bytes_.size() - offset_; }

  std::span<const std::byte> take(std::uint64_t count, std::string_view what) {
    if (count > remaining()) {
      fail(what, concat("needs ", count, " bytes, the file has ", remaining(), " left"));
    }
    const auto taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
  }

  template <class T>
  T read(std::string_view what) {
    return load_unaligned<T>(take(sizeof(T), what).data());
  }

  // A string of GGUF: 64-bit length, then that many bytes.
  std::string_view read_string(std::string_view what) {
    const auto text = take(read<std::uint64_t>(what), what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  // `count` items of at least `item_bytes` each must fit into what is left. Keeps absurd counts
  // from being multiplied, looped over or allocated for.
  void require_items(std::uint64_t count, std::uint64_t item_bytes, std::string_view what) const {
    const std::uint64_t bound = remaining() / item_bytes;
    if (count > bound) {
      fail(what, concat("count is ", count, ", the rest of the file has room for ", bound));
    }
  }

  [[noreturn]] void fail(std::string_view what, std::string_view problem) const {
    throw FileError(concat(file_, ": ", what, " at byte ", offset_, ": ", problem));
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view file_;
  std::size_t offset_ = 0;
};

}  // namespace mini_llama
