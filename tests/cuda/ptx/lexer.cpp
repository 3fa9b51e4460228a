// SPDX-License-Identifier: Apache-2.0
#include "lexer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace kvevict_ptx {
namespace {

constexpr std::array<bool, 256> word_characters = [] {
  std::array<bool, 256> is{};
  for (const char c : std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789_.%$")) {
    is[static_cast<unsigned char>(c)] = true;
  }
  return is;
}();

bool in_word(char c) { return word_characters[static_cast<unsigned char>(c)]; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    tokens.reserve(text_.size() / 4);
    while (skip_blanks()) {
      tokens.push_back(next());
    }
    tokens.push_back({Token::Kind::end, line_, {}});
    return tokens;
  }

 private:
  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  /// False at the end of the text.
  bool skip_blanks() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
      } else if (c == '/' && at(at_ + 1) == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else if (c == '/' && at(at_ + 1) == '*') {
        const std::size_t end = std::min(text_.find("*/", at_ + 2), text_.size() - 2) + 1;
        for (; at_ < end; ++at_) line_ += text_[at_] == '\n';
      } else if (c != ' ' && c != '\t' && c != '\r' && c != '\0') {
        return true;
      }
    }
    return false;
  }

  Token next() {
    const std::size_t begin = at_;
    if (text_[at_] == '"') {
      do {
        at_ += at(at_) == '\\' ? 2 : 1;
      } while (at_ < text_.size() && text_[at_] != '"');
      ++at_;
      return {Token::Kind::string, line_, text_.substr(begin + 1, at_ - begin - 2)};
    }
    // `::` belongs to a word, as in `.L1::no_allocate`; a single colon ends a label.
    while (in_word(at(at_)) || (at(at_) == ':' && at(at_ + 1) == ':' && at_ > begin)) {
      at_ += at(at_) == ':' ? 2 : 1;
    }
    if (at_ > begin) return {Token::Kind::word, line_, text_.substr(begin, at_ - begin)};
    ++at_;
    return {Token::Kind::punctuation, line_, text_.substr(begin, 1)};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) { return Lexer(text).run(); }

}  // namespace kvevict_ptx
