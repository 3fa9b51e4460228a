// SPDX-License-Identifier: Apache-2.0
#include "pre_tokenizer.hpp"

#include <array>
#include <cstddef>

#include "unicode.hpp"

namespace mini_llama {
namespace {

using enum CharacterClass;

constexpr std::array<std::string_view, 7> contractions{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

CharacterClass class_at(std::string_view text, std::size_t at) {
  return classify(decode_utf8(text, at).code_point);
}

// End of the run of characters of one class from `at` on; `last` becomes the begin of its last one.
std::size_t run_end(std::string_view text, std::size_t at, CharacterClass type, std::size_t& last) {
  last = at;
  while (at < text.size()) {
    const Character next = decode_utf8(text, at);
    if (classify(next.code_point) != type) break;
    last = at;
    at += next.bytes;
  }
  return at;
}

// Bytes of the first match of GPT-2's pattern in a text that is not empty and has no numbers.
std::size_t match_gpt2(std::string_view text) {
  for (const std::string_view contraction : contractions) {
    if (text.starts_with(contraction)) return contraction.size();
  }
  std::size_t last = 0;
  const std::size_t word = text.front() == ' ' && text.size() > 1 ? 1 : 0;
  const CharacterClass type = class_at(text, word);
  if (type != space) return run_end(text, word, type, last);
  const std::size_t end = run_end(text, 0, space, last);
  // The last white space before a word is left for the word, if it is not all there is.
  return end == text.size() || last == 0 ? end : last;
}

}  // namespace

std::vector<std::string_view> split_smollm(std::string_view text) {
  std::vector<std::string_view> pieces;
  std::size_t begin = 0;
  const auto split_up_to = [&](std::size_t end) {
    while (begin < end) {
      const std::size_t bytes = match_gpt2(text.substr(begin, end - begin));
      pieces.push_back(text.substr(begin, bytes));
      begin += bytes;
    }
  };
  for (std::size_t at = 0; at < text.size();) {
    const Character next = decode_utf8(text, at);
    if (classify(next.code_point) == number) {
      split_up_to(at);
      pieces.push_back(text.substr(at, next.bytes));
      begin = at + next.bytes;
    }
    at += next.bytes;
  }
  split_up_to(text.size());
  return pieces;
}

}  // namespace mini_llama
