// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "catch.hpp"
#include "error.hpp"
#include "mini_llama_errors.hpp"
#include "mini_llama_vocabulary.hpp"
#include "tokenizer.hpp"

namespace mini_llama_tokenizer_test {

namespace {

using namespace mini_llama;
using namespace mini_llama_test;
using Ids = std::vector<TokenId>;

Tokenizer load(const GgufWriter& writer) {
  const Bytes image = writer.image();
  return Tokenizer::load(GgufFile::parse(image, "test.gguf"));
}

Tokenizer load(const Vocabulary& vocabulary) {
  GgufWriter writer;
  vocabulary.write(writer);
  return load(writer);
}

TEST_CASE("mini_llama tokenizer: merges by rank, then from the left", "[mini_llama]") {
  Vocabulary v;
  const TokenId bc = v.merge("b", "c");
  const TokenId ab = v.merge("a", "b");
  const TokenId aa = v.merge("a", "a");
  const TokenId abc = v.merge("a", "bc");
  const TokenId aaaa = v.merge("aa", "aa");
  const TokenId space_a = v.merge("\u0120", "a");
  const Tokenizer tokenizer = load(v);
  CHECK(tokenizer.encode("ab") == Ids{ab});
  CHECK(tokenizer.encode("abc") == Ids{abc});
  CHECK(tokenizer.encode("aabc") == Ids{aa, bc});
  CHECK(tokenizer.encode("aaa") == Ids{aa, 'a'});
  CHECK(tokenizer.encode("aaaaa") == Ids{aaaa, 'a'});
  CHECK(tokenizer.encode("a a") == Ids{'a', space_a});
  CHECK(tokenizer.encode("a1b") == Ids{'a', '1', 'b'});
  CHECK(tokenizer.encode("").empty());
}

// Greedy merging as it is defined: among all neighbours the pair of the lowest rank, the leftmost.
std::vector<std::string> merge_naively(std::vector<std::string> symbols,
                                       const std::vector<std::string>& merges) {
  while (true) {
    std::size_t best_rank = merges.size();
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto rank = static_cast<std::size_t>(
          std::find(merges.begin(), merges.end(), symbols[i] + " " + symbols[i + 1]) -
          merges.begin());
      if (rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best_rank == merges.size()) return symbols;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST_CASE("mini_llama tokenizer: random merges and texts equal naive merging", "[mini_llama]") {
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    Vocabulary v;
    std::vector<std::string> parts{"a", "b", "c"};
    for (int i = 0; i < 12; ++i) {
      const std::string left = parts[random() % parts.size()];
      const std::string right = parts[random() % parts.size()];
      if (std::find(v.tokens.begin(), v.tokens.end(), left + right) != v.tokens.end()) continue;
      v.merge(left, right);
      parts.push_back(left + right);
    }
    const Tokenizer tokenizer = load(v);
    for (int text_number = 0; text_number < 20; ++text_number) {
      std::vector<std::string> symbols;
      std::string text;
      for (auto i = random() % 30; i > 0; --i) {
        symbols.push_back(parts[random() % 3]);
        text += symbols.back();
      }
      std::vector<std::string> pieces;
      for (const TokenId id : tokenizer.encode(text)) pieces.push_back(tokenizer.piece(id));
      REQUIRE(pieces == merge_naively(symbols, v.merges));
    }
  }
}

TEST_CASE("mini_llama tokenizer: special tokens first, the longest of them", "[mini_llama]") {
  Vocabulary v;
  const TokenId control = v.add("<x>", 3);
  const TokenId longer = v.add("<x>>", 3);
  const TokenId user = v.add("\u00e9t\u00e9", 4);
  const TokenId unused = v.add("<u>", 5);
  const Tokenizer tokenizer = load(v);
  CHECK(tokenizer.encode("<x>") == Ids{control});
  CHECK(tokenizer.encode("<x>>>") == Ids{longer, '>'});
  CHECK(tokenizer.encode("a<x>1<x><x") == Ids{'a', control, '1', control, '<', 'x'});
  CHECK(tokenizer.encode("\u00e9t\u00e9") == Ids{user});
  CHECK(tokenizer.encode("<u>") == Ids{'<', 'u', '>'});
  CHECK(tokenizer.encode("<x>", Tokenizer::SpecialTokens::as_text) == Ids{'<', 'x', '>'});
  CHECK(tokenizer.decode(Ids{control, 'a', user, unused}) == "<x>a\u00e9t\u00e9<u>");
}

TEST_CASE("mini_llama tokenizer: with all bytes in the vocabulary any text comes back",
          "[mini_llama]") {
  Vocabulary v;
  v.merge("\u0120", "a");
  v.merge(spell_byte(0xc3), spell_byte(0xa9));
  const Tokenizer tokenizer = load(v);
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    std::string text;
    for (auto i = random() % 60; i > 0; --i) text += static_cast<char>(random() % 256);
    text += " a caf\u00e9";
    REQUIRE(tokenizer.decode(tokenizer.encode(text)) == text);
  }
}

TEST_CASE("mini_llama tokenizer: a byte without a token is left out", "[mini_llama]") {
  Vocabulary v;
  v.tokens['q'] = "removed";
  const Tokenizer tokenizer = load(v);
  CHECK(tokenizer.encode("aqb q") == Ids{'a', 'b', ' '});
}

TEST_CASE("mini_llama tokenizer: one long piece is not quadratic", "[mini_llama]") {
  Vocabulary v;
  std::string token = "a";
  for (int i = 0; i < 4; ++i) {
    v.merge(token, token);
    token += token;
  }
  const Tokenizer tokenizer = load(v);
  // Minutes if every merge scanned the piece.
  const std::size_t size = std::size_t{1} << 18;
  CHECK(tokenizer.encode(std::string(size, 'a')).size() == size / 16);
}

TEST_CASE("mini_llama tokenizer: settings of the file", "[mini_llama]") {
  GgufWriter writer;
  Vocabulary().write(writer);
  SECTION("absent") {
    const Tokenizer tokenizer = load(writer);
    CHECK_FALSE(tokenizer.bos().has_value());
    CHECK_FALSE(tokenizer.eos().has_value());
    CHECK_FALSE(tokenizer.wants_bos());
  }
  SECTION("present") {
    writer.add("tokenizer.ggml.bos_token_id", std::uint32_t{5});
    writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{6});
    writer.add("tokenizer.ggml.add_bos_token", true);
    const Tokenizer tokenizer = load(writer);
    CHECK(tokenizer.vocabulary_size() == 256);
    CHECK(tokenizer.bos() == 5);
    CHECK(tokenizer.eos() == 6);
    CHECK(tokenizer.wants_bos());
  }
  SECTION("out of range") {
    writer.add("tokenizer.ggml.eos_token_id", std::uint32_t{256});
    CHECK(throws_with<FileError>([&] { load(writer); }, {"eos_token_id is 256", "256 tokens"}));
  }
}

TEST_CASE("mini_llama tokenizer: vocabularies that are not possible", "[mini_llama]") {
  Vocabulary v;
  const auto require_error = [&](std::initializer_list<std::string_view> parts) {
    CHECK(throws_with<FileError>([&] { load(v); }, parts));
  };
  SECTION("types") {
    v.types.pop_back();
    require_error({"token_type has 255 entries", "has 256"});
  }
  SECTION("merge without a space") {
    v.merges.push_back("ab");
    require_error({"merge 0 'ab'", "two tokens"});
  }
  SECTION("empty merge") {
    v.merges.push_back("");
    require_error({"merge 0"});
  }
  SECTION("merge of an unknown token") {
    v.merges.push_back("a zz");
    require_error({"merge 0 'a zz'", "not in the vocabulary"});
  }
  SECTION("merge into an unknown token") {
    v.merges.push_back("a b");
    require_error({"merge 0 'a b'", "not in the vocabulary"});
  }
}

TEST_CASE("mini_llama tokenizer: other tokenizers are refused by name", "[mini_llama]") {
  GgufWriter writer;
  writer.add("tokenizer.ggml.model", "llama");
  CHECK(throws_with<FileError>([&] { load(writer); }, {"tokenizer.ggml.model is 'llama'", "gpt2"}));
  GgufWriter other;
  other.add("tokenizer.ggml.model", "gpt2");
  other.add("tokenizer.ggml.pre", "qwen2");
  CHECK(throws_with<FileError>([&] { load(other); }, {"tokenizer.ggml.pre is 'qwen2'", "smollm"}));
}

TEST_CASE("mini_llama tokenizer: ids outside of the vocabulary", "[mini_llama]") {
  const Tokenizer tokenizer = load(Vocabulary());
  const TokenId bad = GENERATE(-1, 256);
  CHECK(throws_with<ArgumentError>(
      [&] {
        tokenizer.decode(Ids{0, bad});
      },
      {concat("token id is ", bad), "256"}));
}

}  // namespace

}  // namespace mini_llama_tokenizer_test
