// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "unicode.hpp"

namespace mini_llama {

// Byte-level BPE spells every byte as one printable character: the 188 bytes that are printable in
// Latin-1 stand for themselves, the others, in ascending order, for U+0100, U+0101, ...
class ByteAlphabet {
 public:
  ByteAlphabet() {
    char32_t spare = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
      const char32_t code_point = printable ? byte : spare++;
      bytes_[code_point] = static_cast<unsigned char>(byte);
      is_used_[code_point] = true;
    }
  }

  // The bytes that a spelled token stands for; nothing if it has a character that spells no byte.
  std::optional<std::string> decode(std::string_view spelled) const {
    std::string bytes;
    for (std::size_t at = 0; at < spelled.size();) {
      const Character next = decode_utf8(spelled, at);
      if (next.code_point >= is_used_.size() || !is_used_[next.code_point]) return std::nullopt;
      bytes.push_back(static_cast<char>(bytes_[next.code_point]));
      at += next.bytes;
    }
    return bytes;
  }

 private:
  static constexpr std::size_t size = 0x100 + 256 - 188;
  std::array<unsigned char, size> bytes_{};
  std::array<bool, size> is_used_{};
};

}  // namespace mini_llama
