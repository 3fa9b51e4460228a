// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lexer.hpp"
#include "syntax.hpp"

namespace kvevict_ptx {

/// A position in a list of tokens.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool at_end() const { return peek().kind == Token::Kind::end; }
  const Token& take() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool take_if(char c) { return peek().is(c) && (take(), true); }
  bool take_if(std::string_view word) {
    return peek().kind == Token::Kind::word && peek().text == word && (take(), true);
  }
  void expect(char c) {
    if (!take_if(c)) fail(std::string("expected '") + c + "'");
  }
  std::string_view word() {
    if (peek().kind != Token::Kind::word) fail("expected a name");
    return take().text;
  }
  /// Directives without a semicolon end with their line.
  void skip_line() {
    const int line = peek().line;
    while (!at_end() && peek().line == line) take();
  }
  /// Skips from a brace to the one that closes it.
  void skip_braces() {
    expect('{');
    for (int depth = 1; depth > 0 && !at_end();) {
      const Token& token = take();
      depth += token.is('{') ? 1 : token.is('}') ? -1 : 0;
    }
  }
  [[noreturn]] void fail(const std::string& what) const {
    const Token& token = peek();
    throw PtxError("PTX line " + std::to_string(token.line) + ": " + what + " at '" +
                   std::string(token.text) + "'");
  }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

/// An integer constant, with sign and with the suffix U; also what `0f` and `0d` begin.
Operand parse_number(TokenStream& in);

/// One operand of an instruction.
Operand parse_operand(TokenStream& in);

/// A variable after its space: alignment, type, name, dimensions and initial values.
Variable parse_variable(TokenStream& in, Space space);

}  // namespace kvevict_ptx
