// SPDX-License-Identifier: Apache-2.0
#include "tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "byte_alphabet.hpp"
#include "error.hpp"
#include "pre_tokenizer.hpp"

namespace mini_llama {
namespace {

// Values of tokenizer.ggml.token_type.
constexpr std::int64_t control_type = 3;
constexpr std::int64_t user_defined_type = 4;

std::uint64_t pair_key(TokenId left, TokenId right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

void require_text(const GgufFile& file, std::string_view key, std::string_view supported) {
  if (const std::string_view found = file.text(key); found != supported) {
    throw FileError(
        concat(file.name(), ": ", key, " is '", found, "', only '", supported, "' is supported"));
  }
}

std::optional<TokenId> optional_token(const GgufFile& file, std::string_view key,
                                      std::int64_t vocabulary_size) {
  if (!file.contains(key)) return std::nullopt;
  const std::uint64_t id = file.unsigned_value(key);
  if (id >= static_cast<std::uint64_t>(vocabulary_size)) {
    throw FileError(concat(file.name(), ": ", key, " is ", id, ", the vocabulary has ",
                           vocabulary_size, " tokens"));
  }
  return static_cast<TokenId>(id);
}

// A pair of neighbouring symbols that could be merged. The queue gives the lowest rank first and,
// among equals, the leftmost.
struct Candidate {
  std::int32_t rank;
  std::int32_t left;
  std::int32_t right;
  TokenId left_token;
  TokenId right_token;
  TokenId merged;

  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

// A token in the doubly linked list that a piece is while it is merged; -1 marks both ends.
struct Symbol {
  TokenId token;
  std::int32_t previous;
  std::int32_t next;
};

}  // namespace

Tokenizer Tokenizer::load(const GgufFile& file) {
  require_text(file, "tokenizer.ggml.model", "gpt2");
  require_text(file, "tokenizer.ggml.pre", "smollm");
  Tokenizer tokenizer;
  tokenizer.load_vocabulary(file);
  tokenizer.load_merges(file);
  const std::int64_t size = tokenizer.vocabulary_size();
  tokenizer.bos_ = optional_token(file, "tokenizer.ggml.bos_token_id", size);
  tokenizer.eos_ = optional_token(file, "tokenizer.ggml.eos_token_id", size);
  constexpr std::string_view add_bos = "tokenizer.ggml.add_bos_token";
  tokenizer.wants_bos_ = file.contains(add_bos) && file.flag(add_bos);
  return tokenizer;
}

void Tokenizer::load_vocabulary(const GgufFile& file) {
  const auto spellings = file.text_list("tokenizer.ggml.tokens");
  const auto types = file.integer_list("tokenizer.ggml.token_type");
  if (types.size() != spellings.size()) {
    throw FileError(concat(file.name(), ": tokenizer.ggml.token_type has ", types.size(),
                           " entries, tokenizer.ggml.tokens has ", spellings.size()));
  }
  if (spellings.size() > std::size_t{std::numeric_limits<TokenId>::max()}) {
    throw FileError(concat(file.name(), ": ", spellings.size(), " tokens do not fit 31 bits"));
  }
  const ByteAlphabet alphabet;
  pieces_.reserve(spellings.size());
  for (std::size_t i = 0; i < spellings.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (types[i] == control_type || types[i] == user_defined_type) {
      pieces_.emplace_back(spellings[i]);
      if (!spellings[i].empty()) special_.push_back(id);
      continue;
    }
    pieces_.push_back(alphabet.decode(spellings[i]).value_or(std::string(spellings[i])));
    if (pieces_.back().size() == 1) {
      byte_tokens_[static_cast<unsigned char>(pieces_.back().front())] = id;
    }
  }
  std::stable_sort(special_.begin(), special_.end(),
                   [this](TokenId a, TokenId b) { return piece(a).size() > piece(b).size(); });
}

void Tokenizer::load_merges(const GgufFile& file) {
  const auto spellings = file.text_list("tokenizer.ggml.tokens");
  std::unordered_map<std::string_view, TokenId> ids;
  ids.reserve(spellings.size());
  for (std::size_t i = 0; i < spellings.size(); ++i) {
    ids.emplace(spellings[i], static_cast<TokenId>(i));
  }
  const auto merges = file.text_list("tokenizer.ggml.merges");
  if (merges.size() > std::size_t{std::numeric_limits<std::int32_t>::max()}) {
    throw FileError(concat(file.name(), ": ", merges.size(), " merges do not fit 31 bits"));
  }
  merges_.reserve(merges.size());
  std::string both;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const std::size_t gap = merge.find(' ', 1);
    const auto fail = [&](std::string_view problem) {
      throw FileError(concat(file.name(), ": merge ", rank, " '", merge, "' ", problem));
    };
    if (gap == std::string_view::npos) fail("is not two tokens with a space between");
    const auto left = ids.find(merge.substr(0, gap));
    const auto right = ids.find(merge.substr(gap + 1));
    both.assign(merge).erase(gap, 1);
    const auto merged = ids.find(both);
    if (left == ids.end() || right == ids.end() || merged == ids.end()) {
      fail("has a part or a result that is not in the vocabulary");
    }
    merges_.emplace(pair_key(left->second, right->second),
                    Merge{static_cast<std::int32_t>(rank), merged->second});
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  if (text.size() > std::size_t{std::numeric_limits<std::int32_t>::max()}) {
    throw ArgumentError(concat("encode: text has ", text.size(), " bytes, the limit is 2^31-1"));
  }
  std::vector<TokenId> ids;
  std::size_t begin = 0;
  for (std::size_t at = 0; special == SpecialTokens::recognise && at < text.size();) {
    const std::optional<TokenId> id = special_at(text, at);
    if (!id) {
      ++at;
      continue;
    }
    encode_text(text.substr(begin, at - begin), ids);
    ids.push_back(*id);
    at += piece(*id).size();
    begin = at;
  }
  encode_text(text.substr(begin), ids);
  return ids;
}

std::optional<TokenId> Tokenizer::special_at(std::string_view text, std::size_t at) const {
  for (const TokenId id : special_) {
    if (text.substr(at).starts_with(piece(id))) return id;
  }
  return std::nullopt;
}

void Tokenizer::encode_text(std::string_view text, std::vector<TokenId>& ids) const {
  for (const std::string_view piece : split_smollm(text)) encode_piece(piece, ids);
}

const Tokenizer::Merge* Tokenizer::find_merge(TokenId left, TokenId right) const {
  const auto entry = merges_.find(pair_key(left, right));
  return entry == merges_.end() ? nullptr : &entry->second;
}

void Tokenizer::encode_piece(std::string_view piece, std::vector<TokenId>& ids) const {
  std::vector<Symbol> symbols;
  for (const char c : piece) {
    const std::optional<TokenId> token = byte_tokens_[static_cast<unsigned char>(c)];
    if (!token) continue;
    const auto index = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({*token, index - 1, index + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;
  const auto at = [&symbols](std::int32_t i) -> Symbol& {
    return symbols[static_cast<std::size_t>(i)];
  };

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    if (const Merge* merge = find_merge(at(left).token, at(right).token)) {
      queue.push({merge->rank, left, right, at(left).token, at(right).token, merge->merged});
    }
  };
  for (std::int32_t i = 0; i >= 0; i = at(i).next) offer(i, at(i).next);

  constexpr TokenId absorbed = -1;
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = at(best.left);
    Symbol& right = at(best.right);
    // An earlier merge may have changed either side since this pair was offered.
    if (left.token != best.left_token || right.token != best.right_token) continue;
    left.token = best.merged;
    left.next = right.next;
    right.token = absorbed;
    if (left.next >= 0) at(left.next).previous = best.left;
    offer(left.previous, best.left);
    offer(best.left, left.next);
  }
  for (std::int32_t i = 0; i >= 0; i = at(i).next) ids.push_back(at(i).token);
}

const std::string& Tokenizer::piece(TokenId id) const {
  if (id < 0 || id >= vocabulary_size()) {
    throw ArgumentError(concat("token id is ", id, ", the vocabulary has ", vocabulary_size()));
  }
  return pieces_[static_cast<std::size_t>(id)];
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += piece(id);
  return text;
}

}  // namespace mini_llama
