// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gguf.hpp"

namespace mini_llama {

using TokenId = std::int32_t;

// Byte-level BPE with the vocabulary, merges and special tokens of a GGUF file (tokenizer model
// "gpt2", pre-tokenizer "smollm"). Immutable; keeps nothing of the file.
class Tokenizer {
 public:
  // Throws FileError if the file asks for another tokenizer, if lists disagree in length, or if a
  // merge names a token that is not in the vocabulary.
  static Tokenizer load(const GgufFile& file);

  std::int64_t vocabulary_size() const { return std::ssize(pieces_); }
  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  // Whether the model expects bos() before a text; encode() does not add it.
  bool wants_bos() const { return wants_bos_; }

  enum class SpecialTokens { recognise, as_text };

  // Token ids of a text. Special tokens (control and user-defined) that are spelled out in the text
  // are matched first, the longest at each place, unless told to take them as text. A byte for
  // which the vocabulary has no token is left out, as other implementations do. Any byte string is
  // accepted. Cost: n log n in the longest piece, linear in the number of pieces.
  std::vector<TokenId> encode(std::string_view text,
                              SpecialTokens special = SpecialTokens::recognise) const;

  // The bytes a token stands for (the name of a special token). Throws ArgumentError for an id
  // outside of the vocabulary.
  const std::string& piece(TokenId id) const;
  std::string decode(std::span<const TokenId> ids) const;

 private:
  struct Merge {
    std::int32_t rank;
    TokenId merged;
  };

  Tokenizer() = default;
  void load_vocabulary(const GgufFile& file);
  void load_merges(const GgufFile& file);
  void encode_piece(std::string_view piece, std::vector<TokenId>& ids) const;
  void encode_text(std::string_view text, std::vector<TokenId>& ids) const;
  std::optional<TokenId> special_at(std::string_view text, std::size_t at) const;
  const Merge* find_merge(TokenId left, TokenId right) const;

  std::vector<std::string> pieces_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::vector<TokenId> special_;  // longest piece first
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;
  bool wants_bos_ = false;
};

}  // namespace mini_llama
