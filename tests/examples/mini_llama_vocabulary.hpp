// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mini_llama_gguf_writer.hpp"
#include "unicode.hpp"

namespace mini_llama_test {

// A byte's character in the alphabet of byte-level BPE.
inline std::string spell_byte(unsigned byte) {
  std::string spelled;
  unsigned spare = 0x100;
  for (unsigned b = 0; b <= byte; ++b) {
    const bool plain = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad);
    if (b == byte) mini_llama::append_utf8(spelled, plain ? b : spare);
    if (!plain) ++spare;
  }
  return spelled;
}

// A made-up tokenizer: token `byte` is that byte for all 256, then come what was added.
struct Vocabulary {
  Vocabulary() {
    for (unsigned byte = 0; byte < 256; ++byte) add(spell_byte(byte));
  }

  std::int32_t add(std::string token, std::int32_t type = 1) {
    tokens.push_back(std::move(token));
    types.push_back(type);
    return static_cast<std::int32_t>(tokens.size()) - 1;
  }

  // Adds the merge and the token that it makes.
  std::int32_t merge(const std::string& left, const std::string& right) {
    merges.push_back(left + " " + right);
    return add(left + right);
  }

  void write(GgufWriter& file) const {
    file.add("tokenizer.ggml.model", "gpt2");
    file.add("tokenizer.ggml.pre", "smollm");
    file.add_texts("tokenizer.ggml.tokens", tokens);
    file.add_integers("tokenizer.ggml.token_type", types);
    file.add_texts("tokenizer.ggml.merges", merges);
  }

  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;
};

}  // namespace mini_llama_test
