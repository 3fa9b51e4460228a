// SPDX-License-Identifier: Apache-2.0
#include "kvevict_evaluate/case.hpp"

#include <fstream>

#include "catch.hpp"
#include "examples/mini_llama_vocabulary.hpp"
#include "support/temporary_folder.hpp"

namespace case_test {

namespace {

using namespace evaluate;
using mini_llama::TokenId;

// Every byte is a token.
mini_llama::Tokenizer byte_tokenizer() {
  mini_llama_test::GgufWriter writer;
  mini_llama_test::Vocabulary().write(writer);
  const auto image = writer.image();
  return mini_llama::Tokenizer::load(mini_llama::GgufFile::parse(image, "test.gguf"));
}

ContextSpec text_spec(const std::string& file, std::uint64_t start) {
  ContextSpec spec;
  spec.name = "text";
  spec.text = file;
  spec.start = start;
  spec.tokens = 64;
  spec.continuation = 8;
  return spec;
}

ContextSpec task_spec(const std::string& task) {
  ContextSpec spec;
  spec.name = spec.task = task;
  spec.start = 3;
  spec.tokens = 3000;
  return spec;
}

std::string reason(const ContextSpec& spec, const std::string& folder) {
  try {
    make_case(spec, byte_tokenizer(), folder);
  } catch (const LeftOut& left_out) {
    return left_out.what();
  }
  return "not left out";
}

// The case with its own checksum in the list.
Case make(ContextSpec spec, const std::string& folder) {
  const std::string text = reason(spec, folder);
  const std::string mark = "checksum ";
  spec.checksum = std::stoull(text.substr(text.find(mark) + mark.size(), 16), nullptr, 16);
  return make_case(spec, byte_tokenizer(), folder);
}

std::string text_of(const std::vector<TokenId>& tokens, TokenSpan span) {
  std::string text;
  for (std::int64_t t = span.begin; t < span.end; ++t) {
    text += static_cast<char>(tokens[static_cast<std::size_t>(t)]);
  }
  return text;
}

std::string text_of(const std::vector<TokenId>& tokens) {
  return text_of(tokens, {0, static_cast<std::int64_t>(tokens.size())});
}

}  // namespace

TEST_CASE("a text begins with the first whole line behind its start", "[evaluate]") {
  const kvevict_test::TemporaryFolder folder;
  const std::string head = "first line\nsecond\n";
  std::string body;
  for (int i = 0; i < 80; ++i) body += static_cast<char>('a' + i % 26);
  std::ofstream(folder / "a.txt", std::ios::binary) << head + body;
  CHECK(text_of(make(text_spec("a.txt", 0), folder.path()).context) == (head + body).substr(0, 64));
  for (const std::uint64_t start : {12u, 17u, 18u}) {
    INFO(start);
    const Case c = make(text_spec("a.txt", start), folder.path());
    CHECK(text_of(c.context) == body.substr(0, 64));
    CHECK(text_of(c.continuation) == body.substr(64, 8));
    CHECK(c.answers.empty());
    CHECK(c.name == "text");
  }
  // Line 2 begins at 11, line 3 at 18.
  const Case second = make(text_spec("a.txt", 11), folder.path());
  CHECK(text_of(second.context) == ("second\n" + body).substr(0, 64));

  CHECK(reason(text_spec("a.txt", 19), folder.path()) == "a.txt has 0 tokens there, wanted are 72");
  CHECK(reason(text_spec("b.txt", 0), folder.path()) == folder / "b.txt" + " cannot be read");
}

TEST_CASE("another text is noticed by its tokens", "[evaluate]") {
  const kvevict_test::TemporaryFolder folder;
  std::string body(72, 'x');
  std::ofstream(folder / "a.txt", std::ios::binary) << body;
  const Case c = make(text_spec("a.txt", 0), folder.path());
  ContextSpec spec = text_spec("a.txt", 0);
  spec.checksum = c.checksum;
  CHECK(reason(spec, folder.path()) == "not left out");
  // What is behind the last token does not matter.
  std::ofstream(folder / "a.txt", std::ios::binary) << body + "more";
  CHECK(reason(spec, folder.path()) == "not left out");
  for (const std::size_t at : {std::size_t{0}, std::size_t{63}, std::size_t{64}, std::size_t{71}}) {
    std::string other = body;
    other[at] = 'y';
    std::ofstream(folder / "a.txt", std::ios::binary) << other;
    CHECK(reason(spec, folder.path()).find("the list says " + hexadecimal(c.checksum)) !=
          std::string::npos);
  }
}

TEST_CASE("a checksum is that of FNV-1a", "[evaluate]") {
  Case c;
  CHECK(hexadecimal(checksum_of(c)) == "cbf29ce484222325");
  c.context = {0x64636261};
  CHECK(hexadecimal(checksum_of(c)) == "fc179f83ee0724dd");  // of "abcd"
  c.context = {};
  c.continuation = {0x64636261};
  CHECK(hexadecimal(checksum_of(c)) == "fc179f83ee0724dd");
}

TEST_CASE("a task's answers and their evidence are where they say", "[evaluate]") {
  for (const char* const name : {"passkey", "needles", "lookup", "tracking"}) {
    INFO(name);
    const Case c = make(task_spec(name), "");
    REQUIRE(!c.answers.empty());
    for (const Answer& answer : c.answers) {
      const std::string text = text_of(c.continuation, answer.tokens);
      REQUIRE(!answer.evidence.empty());
      CHECK(text_of(c.context, answer.evidence.front()) == text);
      CHECK(answer.depth == Approx(static_cast<double>(answer.evidence.front().begin) /
                                   static_cast<double>(c.context.size())));
      CHECK(answer.tokens.begin > 1);
    }
    CHECK(c.answers.back().tokens.end == static_cast<std::int64_t>(c.continuation.size()));
  }
  CHECK(reason(task_spec("riddle"), "") == "there is no task 'riddle'");
}

TEST_CASE("asked first, a question belongs to the context but for its last token", "[evaluate]") {
  const Case c = make(task_spec("needles"), "");
  const Case aware = query_aware(c);
  REQUIRE(aware.answers.size() == 1);
  CHECK(aware.answers[0].tokens.begin == 1);
  CHECK(text_of(aware.continuation, aware.answers[0].tokens) ==
        text_of(c.continuation, c.answers[0].tokens));
  CHECK(text_of(aware.context) + text_of(aware.continuation) ==
        text_of(c.context) + text_of(c.continuation, {0, c.answers[0].tokens.end}));
  CHECK(static_cast<std::int64_t>(aware.continuation.size()) == aware.answers[0].tokens.end);
  CHECK(text_of(aware.context, aware.answers[0].evidence.front()) ==
        text_of(aware.continuation, aware.answers[0].tokens));
  Case text = c;
  text.answers.clear();
  CHECK_THROWS_AS(query_aware(text), LeftOut);
}

}  // namespace case_test
