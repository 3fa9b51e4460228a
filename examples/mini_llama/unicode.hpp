// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mini_llama {

// What the pre-tokenizer distinguishes.
enum class CharacterClass { letter, number, space, other };

// Class of a code point. ASCII, the white space of Unicode and the common scripts are exact; beyond
// that a rule of thumb stands in for the Unicode tables: a code point from U+0080 on is a letter
// unless it lies in one of a few dozen ranges of digits, combining marks, punctuation and symbols.
// Rare scripts' digits and marks and unassigned code points are thus taken for letters. That can
// move a piece boundary, never lose text.
CharacterClass classify(char32_t code_point);

struct Character {
  char32_t code_point;
  std::size_t bytes;
};

// The character that begins at text[at], at < text.size(). A byte that starts no valid UTF-8
// sequence (overlong, surrogate, truncated ...) is one character, U+FFFD, of one byte.
Character decode_utf8(std::string_view text, std::size_t at);

// Appends a code point up to U+10FFFF as UTF-8.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace mini_llama
