// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "pre_tokenizer.hpp"
#include "unicode.hpp"

namespace {

using namespace mini_llama;
using Pieces = std::vector<std::string_view>;

TEST_CASE("mini_llama unicode: classes", "[mini_llama]") {
  using enum CharacterClass;
  for (const char32_t c :
       U"azAZ\u00aa\u00b5\u00ba\u00c0\u00e9\u0100\u03b1\u0416\u05d0\u0639\u0915\u4e16\u3053") {
    if (c != 0) CHECK(classify(c) == letter);
  }
  for (const char32_t c : U"09\u00b2\u00bd\u0660\u06f5\u0967\u2074\u2160\uff11") {
    if (c != 0) CHECK(classify(c) == number);
  }
  for (const char32_t c : U" \t\n\v\f\r\u0085\u00a0\u1680\u2003\u2028\u202f\u205f\u3000") {
    if (c != 0) CHECK(classify(c) == space);
  }
  for (const char32_t c :
       U"!/:@[`{~_\u007f\u00a1\u00d7\u00f7\u0301\u2014\u201c\u20ac\u3002\uff0c\ufffd\U0001f600") {
    if (c != 0) CHECK(classify(c) == other);
  }
}

TEST_CASE("mini_llama unicode: UTF-8 there and back", "[mini_llama]") {
  for (const char32_t c :
       {0x0u, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xd7ffu, 0xe000u, 0xffffu, 0x10000u, 0x10ffffu}) {
    std::string text = "x";
    append_utf8(text, c);
    const Character decoded = decode_utf8(text, 1);
    CHECK(decoded.code_point == c);
    CHECK(decoded.bytes == text.size() - 1);
  }
}

TEST_CASE("mini_llama unicode: what is no UTF-8 is one byte each", "[mini_llama]") {
  // Continuation byte, overlong, surrogate, too large, unknown lead byte, cut off, broken off.
  for (const std::string_view text :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82",
        "\xf0\x9f\x98", "\xc3(", "\xe2(\x82"}) {
    const Character decoded = decode_utf8(text, 0);
    CHECK(decoded.code_point == 0xfffd);
    CHECK(decoded.bytes == 1);
  }
}

TEST_CASE("mini_llama pre-tokenizer: pieces", "[mini_llama]") {
  CHECK(split_smollm("").empty());
  CHECK(split_smollm("Hello world") == Pieces{"Hello", " world"});
  CHECK(split_smollm("It's we'll I'd they're") ==
        Pieces{"It", "'s", " we", "'ll", " I", "'d", " they", "'re"});
  CHECK(split_smollm("O'Neil 'S x='re'") ==
        Pieces{"O", "'", "Neil", " '", "S", " x", "='", "re", "'"});
  CHECK(split_smollm("a1b 12.5") == Pieces{"a", "1", "b", " ", "1", "2", ".", "5"});
  CHECK(split_smollm("a   b") == Pieces{"a", "  ", " b"});
  CHECK(split_smollm("a  7") == Pieces{"a", "  ", "7"});
  CHECK(split_smollm("a \n\n b\n") == Pieces{"a", " \n\n", " b", "\n"});
  CHECK(split_smollm("\n\tx") == Pieces{"\n", "\t", "x"});
  CHECK(split_smollm("f(x)  # ok") == Pieces{"f", "(", "x", ")", " ", " #", " ok"});
  CHECK(split_smollm("caf\u00e9, \u4f60\u597d\u3002") ==
        Pieces{"caf\u00e9", ",", " \u4f60\u597d", "\u3002"});
  CHECK(split_smollm("x\u00a0y") == Pieces{"x", "\u00a0", "y"});
  CHECK(split_smollm(" ") == Pieces{" "});
}

TEST_CASE("mini_llama pre-tokenizer: any bytes, the pieces joined are the text", "[mini_llama]") {
  std::mt19937 random(1);
  constexpr std::string_view alphabet = "ab '\n\t1.\xc3\xa9\xe2\x82\xac\xff";
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (auto i = random() % 40; i > 0; --i) text += alphabet[random() % alphabet.size()];
    std::string joined;
    for (const std::string_view piece : split_smollm(text)) {
      REQUIRE_FALSE(piece.empty());
      joined += piece;
    }
    REQUIRE(joined == text);
  }
}

}  // namespace
