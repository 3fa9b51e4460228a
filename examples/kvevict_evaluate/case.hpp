// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "context_list.hpp"
#include "mini_llama/tokenizer.hpp"

namespace evaluate {

/// Why a context is not measured.
class LeftOut : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct TokenSpan {
  std::int64_t begin;
  std::int64_t end;
};

/// An answer that the continuation gives to a question.
struct Answer {
  TokenSpan tokens;                 ///< of the continuation
  std::vector<TokenSpan> evidence;  ///< of the context: what the answer stands in
  double depth = 0.0;               ///< of the first evidence, as a share of the context
};

/// A context and what follows it, in tokens.
struct Case {
  std::string name;
  std::vector<mini_llama::TokenId> context;
  std::vector<mini_llama::TokenId> continuation;
  std::vector<Answer> answers;  ///< none for a text
  std::uint64_t checksum = 0;
};

/// FNV-1a, of 64 bits, of the token ids of context and continuation, each as four bytes, lowest
/// first.
std::uint64_t checksum_of(const Case& c);
std::string hexadecimal(std::uint64_t checksum);

/// The tokens that a list's line stands for, texts from `folder`. Throws LeftOut for a file that is
/// missing or too short, a task that cannot be made, or tokens with another checksum.
Case make_case(const ContextSpec& spec, const mini_llama::Tokenizer& tokenizer,
               const std::string& folder);

/// The same with the first question before the eviction: all of it but its last token belongs to
/// the context, and the continuation ends with its answer. Throws LeftOut for a text.
Case query_aware(const Case& c);

}  // namespace evaluate
