// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace kvevict_ptx {

/// A piece of PTX text. Words are names, opcodes with all their suffixes, directives and numbers
/// without their sign; everything else is one character of punctuation.
struct Token {
  enum class Kind : unsigned char { word, string, punctuation, end };
  Kind kind;
  int line;
  std::string_view text;  ///< of a string: without its quotes

  bool is(char c) const { return kind == Kind::punctuation && text[0] == c; }
};

/// Splits `text`, which the tokens refer to, and drops comments. The last token is an end.
std::vector<Token> tokenize(std::string_view text);

}  // namespace kvevict_ptx
