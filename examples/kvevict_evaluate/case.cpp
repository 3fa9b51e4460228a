// SPDX-License-Identifier: Apache-2.0
#include "case.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "tasks.hpp"

namespace evaluate {
namespace {

using mini_llama::TokenId;

std::vector<TokenId> encode(const mini_llama::Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, mini_llama::Tokenizer::SpecialTokens::as_text);
}

void append(std::vector<TokenId>& to, const std::vector<TokenId>& tokens) {
  to.insert(to.end(), tokens.begin(), tokens.end());
}

/// The text of a file from its first line that begins at byte `start` or behind it.
std::string read_from(const std::string& path, std::uint64_t start) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw LeftOut(path + " cannot be read");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (start == 0) return text;
  const std::size_t line = text.find('\n', static_cast<std::size_t>(start) - 1);
  return line == std::string::npos ? std::string() : text.substr(line + 1);
}

Case make_text(const ContextSpec& spec, const mini_llama::Tokenizer& tokenizer,
               const std::string& folder) {
  std::string text = read_from(folder + "/" + spec.text, spec.start);
  const std::int64_t wanted = spec.tokens + spec.continuation;
  // No token of text has 32 bytes on average.
  text.resize(std::min(text.size(), static_cast<std::size_t>(32 * wanted)));
  const std::vector<TokenId> tokens = encode(tokenizer, text);
  const auto available = static_cast<std::int64_t>(tokens.size());
  if (available < wanted) {
    throw LeftOut(spec.text + " has " + std::to_string(available) + " tokens there, wanted are " +
                  std::to_string(wanted));
  }
  Case c;
  c.context.assign(tokens.begin(), tokens.begin() + spec.tokens);
  c.continuation.assign(tokens.begin() + spec.tokens, tokens.begin() + wanted);
  return c;
}

Case make_questions(const ContextSpec& spec, const mini_llama::Tokenizer& tokenizer) {
  const auto count = [&](std::string_view text) {
    return static_cast<std::int64_t>(encode(tokenizer, text).size());
  };
  Task task;
  try {
    task = make_task(spec.task, spec.start, spec.tokens, count);
  } catch (const std::runtime_error& error) {
    throw LeftOut(error.what());
  }
  Case c;
  c.answers.resize(task.questions.size());
  for (const Segment& segment : task.context) {
    const auto begin = static_cast<std::int64_t>(c.context.size());
    append(c.context, encode(tokenizer, segment.text));
    if (segment.question < 0) continue;
    c.answers[static_cast<std::size_t>(segment.question)].evidence.push_back(
        {begin, static_cast<std::int64_t>(c.context.size())});
  }
  for (std::size_t i = 0; i < task.questions.size(); ++i) {
    append(c.continuation, encode(tokenizer, task.questions[i].prompt));
    const auto begin = static_cast<std::int64_t>(c.continuation.size());
    append(c.continuation, encode(tokenizer, task.questions[i].answer));
    Answer& answer = c.answers[i];
    answer.tokens = {begin, static_cast<std::int64_t>(c.continuation.size())};
    answer.depth =
        static_cast<double>(answer.evidence.front().begin) / static_cast<double>(c.context.size());
  }
  return c;
}

}  // namespace

std::uint64_t checksum_of(const Case& c) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const auto* tokens : {&c.context, &c.continuation}) {
    for (const TokenId token : *tokens) {
      for (int shift = 0; shift < 32; shift += 8) {
        hash ^= (static_cast<std::uint32_t>(token) >> shift) & 0xffu;
        hash *= 0x100000001b3u;
      }
    }
  }
  return hash;
}

std::string hexadecimal(std::uint64_t checksum) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(checksum));
  return text;
}

Case make_case(const ContextSpec& spec, const mini_llama::Tokenizer& tokenizer,
               const std::string& folder) {
  Case c = spec.task.empty() ? make_text(spec, tokenizer, folder) : make_questions(spec, tokenizer);
  c.name = spec.name;
  c.checksum = checksum_of(c);
  if (c.checksum != spec.checksum) {
    throw LeftOut("its tokens have the checksum " + hexadecimal(c.checksum) + ", the list says " +
                  hexadecimal(spec.checksum) + ": the text is another one here");
  }
  return c;
}

Case query_aware(const Case& c) {
  if (c.answers.empty()) throw LeftOut("a text asks nothing");
  Case aware = c;
  Answer answer = c.answers.front();
  const auto moved = answer.tokens.begin - 1;
  aware.context.insert(aware.context.end(), c.continuation.begin(), c.continuation.begin() + moved);
  aware.continuation.assign(c.continuation.begin() + moved,
                            c.continuation.begin() + answer.tokens.end);
  answer.tokens = {1, answer.tokens.end - moved};
  aware.answers = {answer};
  return aware;
}

}  // namespace evaluate
