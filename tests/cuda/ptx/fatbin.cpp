// SPDX-License-Identifier: Apache-2.0
#include "fatbin.hpp"

#include <fatbinary_section.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "syntax.hpp"

namespace kvevict_ptx {
namespace {

// Neither structure is documented; these members are what nvcc 13 writes.
struct Header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t bytes;  ///< behind the header
};
constexpr std::uint32_t header_magic = 0xba55ed50;

struct Entry {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  ///< behind this header
  std::uint32_t compressed_bytes;
  std::uint32_t options;
  std::uint32_t code_version;
  std::uint32_t capability;
};
constexpr std::uint16_t kind_of_ptx = 1;

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

struct Found {
  std::string_view text;
  int capability = 0;
  bool compressed = false;
};

/// Empty if the program has no PTX for such a device.
Found newest_ptx(const void* wrapper, int most) {
  const auto outer = read<__fatBinC_Wrapper_t>(static_cast<const std::byte*>(wrapper));
  const auto* at = reinterpret_cast<const std::byte*>(outer.data);
  const auto header = outer.magic == FATBINC_MAGIC ? read<Header>(at) : Header{};
  if (header.magic != header_magic) throw PtxError("not what nvcc embeds into a program");
  Found newest;
  at += header.header_bytes;
  for (const std::byte* end = at + header.bytes; at < end;) {
    const auto entry = read<Entry>(at);
    const std::string_view text(reinterpret_cast<const char*>(at + entry.header_bytes),
                                entry.bytes);
    at += entry.header_bytes + entry.bytes;
    const auto capability = static_cast<int>(entry.capability);
    const bool suits = most == 0 || capability <= most;
    if (entry.kind != kind_of_ptx || !suits || capability < newest.capability) continue;
    const bool compressed =
        entry.compressed_bytes != 0 || text.find(".version") == std::string_view::npos;
    newest = {text.substr(0, text.find('\0')), capability, compressed};
  }
  return newest;
}

}  // namespace

int newest_capability(const void* wrapper) { return newest_ptx(wrapper, 0).capability; }

std::string find_ptx(const void* wrapper, int capability) {
  const Found newest = newest_ptx(wrapper, capability);
  if (newest.text.empty()) {
    throw PtxError(
        "the program has no PTX for this device: nvcc needs -gencode with code=compute_XX");
  }
  if (newest.compressed) {
    throw PtxError("the program's PTX is compressed: nvcc needs --no-compress");
  }
  return std::string(newest.text);
}

}  // namespace kvevict_ptx
