// SPDX-License-Identifier: Apache-2.0
// A model that goes on for long under a limit: kvevict_demo's sequences over a made-up model.
#include "kvevict_demo/bounded_sequence.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "mini_llama/error.hpp"
#include "mini_llama_tiny_model.hpp"
#include "model_eviction/key_evidence.hpp"
#include "model_eviction/model_evidence.hpp"

namespace bounded_sequence_test {

namespace {

using demo::BoundedSequence;
using demo::BudgetKind;
using demo::SequenceLimit;
using kvevict::AnyPolicy;
using mini_llama::Engine;
using mini_llama::Index;
using mini_llama::Matrix;
using mini_llama::Model;
using mini_llama::RowType;
using mini_llama::TokenId;

Model tiny_model() {
  mini_llama_test::TinyModel tiny;
  tiny.context = 4000;
  const auto image = tiny.write().image();
  mini_llama::ThreadPool pool(1);
  return Model::load(mini_llama::GgufFile::parse(image, "test.gguf"), pool);
}

SequenceLimit limit_of(std::int64_t rows, BudgetKind budget = BudgetKind::uniform) {
  SequenceLimit limit;
  limit.schedule = {
      .row_limit = rows, .slack = 6, .protect = kvevict::Protect{.sinks = 2, .recent = 8}};
  if (budget == BudgetKind::global) limit.schedule.head_limit = 3 * rows;
  limit.budget = budget;
  return limit;
}

std::vector<TokenId> random_tokens(Index count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (Index i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random() % 200));
  return tokens;
}

// Reads a prompt in chunks of 16; logits after its last token.
Matrix read(kvevict::CpuResources& res, BoundedSequence& sequence,
            const std::vector<TokenId>& prompt, const kvevict::Evidence<>& given = {}) {
  Matrix logits;
  for (std::size_t begin = 0; begin < prompt.size(); begin += 16) {
    const std::size_t count = std::min<std::size_t>(16, prompt.size() - begin);
    const auto last = static_cast<Index>(count) - 1;
    logits = sequence.forward(res, {prompt.data() + begin, count}, {&last, 1}, given);
  }
  return logits;
}

// Query filters of all heads, from the queries of a prompt.
std::vector<float> filters_of(kvevict::CpuResources& res, Engine& engine,
                              const std::vector<TokenId>& prompt) {
  demo::QueryCapture queries(engine.model().parameters(), std::ssize(prompt));
  auto cache = engine.make_cache(RowType::float32);
  engine.prefill(cache, prompt, 16, {}, queries.observer());
  return demo::query_filters(res, queries.post_rope_view(), 4);
}

TokenId top_of(const Matrix& logits) {
  Index top = 0;
  logits.row(0).maxCoeff(&top);
  return static_cast<TokenId>(top);
}

// Greedy decoding; returns the logits of every step, one after another.
std::vector<float> go_on(kvevict::CpuResources& res, BoundedSequence& sequence, TokenId token,
                         int steps, const kvevict::Evidence<>& given = {}) {
  std::vector<float> all;
  const Index row = 0;
  for (int step = 0; step < steps; ++step) {
    const Matrix logits = sequence.forward(res, {&token, 1}, {&row, 1}, given);
    all.insert(all.end(), logits.data(), logits.data() + logits.size());
    // Greedy would soon go round in circles.
    token = static_cast<TokenId>((top_of(logits) + 7 * step) % 200);
  }
  return all;
}

std::int64_t longest(const mini_llama::RaggedCache& cache) {
  Index most = 0;
  for (Index layer = 0; layer < cache.shape().layers; ++layer) {
    for (Index head = 0; head < cache.shape().kv_heads; ++head) {
      most = std::max(most, cache.rows(layer, head));
    }
  }
  return most;
}

std::string temporary_path() {
  return (std::filesystem::temp_directory_path() /
          ("kvevict_sequence_" + std::to_string(::getpid())))
      .string();
}

}  // namespace

TEST_CASE("a model generates within its limit, with every policy", "[examples]") {
  const Model model = tiny_model();
  Engine engine(model, 2);
  kvevict::CpuResources res({.threads = 2});
  const std::vector<TokenId> prompt = random_tokens(100, 1);
  const auto projection = demo::projection_of(res, model);
  const std::vector<float> filters = filters_of(res, engine, prompt);
  kvevict::Evidence<> given;
  given.output_projection = projection.view();
  given.query_filter = {kvevict::MatrixView<const float>::packed(filters.data(), 4, 10)};
  for (const AnyPolicy& policy : AnyPolicy::all()) {
    for (const BudgetKind budget : {BudgetKind::uniform, BudgetKind::global}) {
      INFO(policy.name() << " " << static_cast<int>(budget));
      const RowType type = budget == BudgetKind::uniform ? RowType::float32 : RowType::float16;
      BoundedSequence sequence(engine, type, policy, limit_of(40, budget));
      TokenId token = top_of(read(res, sequence, prompt, given));
      std::int64_t bytes = 0;
      const Index row = 0;
      for (int step = 0; step < 1500; ++step) {
        token = top_of(sequence.forward(res, {&token, 1}, {&row, 1}, given));
        const auto& cache = sequence.cache();
        REQUIRE(cache.next_position() == 101 + step);
        REQUIRE(sequence.next_position() == 101 + step);
        REQUIRE(longest(cache) <= (budget == BudgetKind::uniform ? 40 : 120));
        REQUIRE(cache.total_rows() <= 40 * 4);
        cache.check();
        bytes = std::max(bytes, cache.capacity_bytes());
      }
      // Keys, values and a position for each row; the cache grows by an eighth at a time.
      const std::int64_t row_bytes =
          (10 + 7) * mini_llama::element_bytes(type) + std::int64_t{sizeof(std::int32_t)};
      CHECK(bytes <= 40 * 4 * row_bytes * 9 / 8 + 4 * row_bytes);
    }
  }
}

TEST_CASE("a limit that is not reached changes nothing", "[examples]") {
  const Model model = tiny_model();
  Engine engine(model, 2);
  kvevict::CpuResources res({.threads = 1});
  const std::vector<TokenId> prompt = random_tokens(48, 2);
  BoundedSequence sequence(engine, RowType::float32, AnyPolicy::named("SnapKV"), limit_of(200));
  auto plain = engine.make_cache(RowType::float32);
  const Matrix logits = read(res, sequence, prompt);
  const mini_llama::Vector want = engine.prefill(plain, prompt, 16);
  CHECK(logits.row(0).transpose() == want);
}

TEST_CASE("several sequences at once are the same alone", "[examples]") {
  const Model model = tiny_model();
  Engine engine(model, 2);
  kvevict::CpuResources res({.threads = 2});
  for (const char* const name : {"H2O", "Jacap", "SnapKV", "ExpectedAttention"}) {
    INFO(name);
    const AnyPolicy policy = AnyPolicy::named(name);
    std::vector<BoundedSequence> together;
    std::vector<std::vector<float>> got(3);
    std::vector<TokenId> token(3);
    for (unsigned i = 0; i < 3; ++i) {
      together.emplace_back(engine, RowType::float32, policy, limit_of(30));
      token[i] = top_of(read(res, together[i], random_tokens(20 + 31 * i, 5 + i)));
    }
    const Index row = 0;
    for (int step = 0; step < 60; ++step) {
      for (std::size_t i = 0; i < 3; ++i) {
        const Matrix logits = together[i].forward(res, {&token[i], 1}, {&row, 1});
        got[i].insert(got[i].end(), logits.data(), logits.data() + logits.size());
        token[i] = static_cast<TokenId>((top_of(logits) + 7 * step) % 200);
      }
    }
    for (unsigned i = 0; i < 3; ++i) {
      BoundedSequence alone(engine, RowType::float32, policy, limit_of(30));
      const TokenId first = top_of(read(res, alone, random_tokens(20 + 31 * i, 5 + i)));
      CHECK(go_on(res, alone, first, 60) == got[i]);
    }
  }
}

TEST_CASE("sequences of different policies and lengths fed together are the same alone",
          "[examples]") {
  const Model model = tiny_model();
  Engine engine(model, 2);
  kvevict::CpuResources res({.threads = 2});
  // A matrix product of up to four tokens has the same bits for each of them.
  const std::vector<const char*> names = {"H2O", "Jacap", "LeverageScore", "SnapKV"};
  const auto sequence_of = [&](unsigned i) {
    const BudgetKind budget = i % 2 == 0 ? BudgetKind::uniform : BudgetKind::global;
    return BoundedSequence(engine, RowType::float32, AnyPolicy::named(names[i]),
                           limit_of(30, budget));
  };
  std::vector<BoundedSequence> together;
  std::vector<std::vector<float>> got(names.size());
  std::vector<TokenId> token;
  for (unsigned i = 0; i < names.size(); ++i) {
    together.push_back(sequence_of(i));
    token.push_back(top_of(read(res, together[i], random_tokens(20 + 31 * i, 5 + i))));
  }
  const Index row = 0;
  for (int step = 0; step < 60; ++step) {
    std::vector<demo::BoundedChunk> chunks;
    for (std::size_t i = 0; i < names.size(); ++i) {
      chunks.push_back({together[i], {&token[i], 1}, {&row, 1}});
    }
    const std::vector<Matrix> logits = demo::forward_together(res, engine, chunks);
    for (std::size_t i = 0; i < names.size(); ++i) {
      got[i].insert(got[i].end(), logits[i].data(), logits[i].data() + logits[i].size());
      token[i] = static_cast<TokenId>((top_of(logits[i]) + 7 * step) % 200);
    }
  }
  for (unsigned i = 0; i < names.size(); ++i) {
    INFO(names[i]);
    BoundedSequence alone = sequence_of(i);
    const TokenId first = top_of(read(res, alone, random_tokens(20 + 31 * i, 5 + i)));
    CHECK(go_on(res, alone, first, 60) == got[i]);
    CHECK(together[i].next_position() == alone.next_position());
    CHECK(together[i].save(res) == alone.save(res));
  }
}

TEST_CASE("a sequence moves to another process", "[examples]") {
  const std::string path = temporary_path();
  const std::vector<TokenId> prompt = random_tokens(70, 3);
  for (const char* const name : {"H2O", "Jacap", "CapKV", "KNorm"}) {
    for (const RowType type : {RowType::float32, RowType::float16}) {
      INFO(name);
      const AnyPolicy policy = AnyPolicy::named(name);
      const SequenceLimit limit = limit_of(36, BudgetKind::global);
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        const Model model = tiny_model();
        Engine engine(model, 1);
        kvevict::CpuResources res({.threads = 1});
        BoundedSequence sequence(engine, type, policy, limit);
        go_on(res, sequence, top_of(read(res, sequence, prompt)), 50);
        const std::vector<std::byte> blob = sequence.save(res);
        std::ofstream out(path, std::ios::binary);
        out.write(reinterpret_cast<const char*>(blob.data()),
                  static_cast<std::streamsize>(blob.size()));
        out.close();
        ::_exit(out ? 0 : 1);
      }
      int status = -1;
      REQUIRE(::waitpid(child, &status, 0) == child);
      REQUIRE(status == 0);
      std::ifstream in(path, std::ios::binary);
      const std::string file{std::istreambuf_iterator<char>(in), {}};
      const auto blob = std::as_bytes(std::span(file));

      const Model model = tiny_model();
      Engine engine(model, 2);
      kvevict::CpuResources res({.threads = 2});
      BoundedSequence uninterrupted(engine, type, policy, limit);
      go_on(res, uninterrupted, top_of(read(res, uninterrupted, prompt)), 50);
      BoundedSequence resumed(engine, type, policy, limit);
      resumed.restore(res, blob);
      CHECK(resumed.next_position() == 120);
      CHECK(resumed.save(res) == uninterrupted.save(res));
      CHECK(go_on(res, resumed, 5, 60) == go_on(res, uninterrupted, 5, 60));

      // Damage, or another row type: refused, and the sequence goes on as it was.
      const std::vector<std::byte> before = resumed.save(res);
      std::vector<std::byte> damaged(blob.begin(), blob.end());
      damaged[damaged.size() / 3] ^= std::byte{4};
      CHECK_THROWS_AS(resumed.restore(res, damaged), kvevict::Error);
      CHECK(resumed.save(res) == before);
      BoundedSequence other(engine, type == RowType::float32 ? RowType::float16 : RowType::float32,
                            policy, limit);
      CHECK(kvevict_test::refused([&] { other.restore(res, blob); }).substr(0, 19) ==
            "bytes of an element");
    }
  }
  std::filesystem::remove(path);
}

TEST_CASE("a chunk that cannot be fed leaves a sequence that goes on", "[examples]") {
  const Model model = tiny_model();
  Engine engine(model, 1);
  kvevict::CpuResources res({.threads = 1});
  BoundedSequence sequence(engine, RowType::float32, AnyPolicy::named("H2O"), limit_of(30));
  read(res, sequence, random_tokens(64, 4));
  const std::vector<TokenId> too_many = random_tokens(31, 4);
  const Index row = 0;
  CHECK_THROWS_AS(sequence.forward(res, too_many, {&row, 1}), kvevict::Error);
  const TokenId unknown = 200;
  CHECK_THROWS_AS(sequence.forward(res, {&unknown, 1}, {&row, 1}), mini_llama::ArgumentError);
  CHECK(sequence.next_position() == 64);
  CHECK(go_on(res, sequence, 3, 10).size() == 2000);
  CHECK(sequence.next_position() == 74);
}

}  // namespace bounded_sequence_test
