// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "error.hpp"
#include "half.hpp"
#include "mini_llama_errors.hpp"
#include "mini_llama_reference.hpp"
#include "mini_llama_tiny_model.hpp"

namespace mini_llama_engine_test {

namespace {

using namespace mini_llama;
using namespace mini_llama_test;

// fp32 against double, or against fp32 in another order of summation. Logits reach about 5 and come
// from sums of up to 44 terms through two layers. Measured: 1.1e-5.
constexpr double fp32_tolerance = 5e-5;

// Half rows: a key or value that lies between two halves may be rounded to the other one, a
// relative change of 2^-11 in one element. Measured: 1.0e-3.
constexpr double half_tolerance = 5e-3;

Model load(const TinyModel& tiny) {
  const Bytes image = tiny.write().image();
  ThreadPool pool(1);
  return Model::load(GgufFile::parse(image, "test.gguf"), pool);
}

std::vector<TokenId> random_tokens(Index count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (Index i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random() % 200));
  return tokens;
}

std::vector<Index> all_rows(Index count) {
  std::vector<Index> rows(to_size(count));
  std::iota(rows.begin(), rows.end(), Index{0});
  return rows;
}

double max_difference(const Matrix& a, const Matrix& b) { return (a - b).cwiseAbs().maxCoeff(); }

double max_difference(const Matrix& logits, Index row, const Row& expected) {
  double largest = 0.0;
  for (Index i = 0; i < logits.cols(); ++i) {
    largest = std::max(largest, std::abs(logits(row, i) - expected[to_size(i)]));
  }
  return largest;
}

// Keeps the rows of a head that `keep` says yes to, as an eviction would.
template <class Keep>
void evict(RaggedCache& cache, Index layer, Index head, Keep keep) {
  const CacheShape& shape = cache.shape();
  float* keys = cache.keys<float>(layer, head);
  float* values = cache.values<float>(layer, head);
  std::int32_t* positions = cache.positions(layer, head);
  Index to = 0;
  for (Index from = 0; from < cache.rows(layer, head); ++from) {
    if (!keep(layer, head, positions[from])) continue;
    std::copy_n(keys + from * shape.key_dim, shape.key_dim, keys + to * shape.key_dim);
    std::copy_n(values + from * shape.value_dim, shape.value_dim, values + to * shape.value_dim);
    positions[to++] = positions[from];
  }
  cache.shrink(layer, head, to);
}

// Whether a (layer, head) keeps a position: different for each, none the same count.
bool keeps(Index layer, Index head, std::int32_t position) {
  return (position * 7 + layer * 3 + head) % (2 + layer + 2 * head) == 0;
}

TEST_CASE("mini_llama engine: logits equal the architecture in double", "[mini_llama]") {
  TinyModel tiny;
  tiny.tied = GENERATE(true, false);
  tiny.quantised = GENERATE(false, true);
  tiny.with_rope_factors = !tiny.tied;
  const Model model = load(tiny);
  const auto tokens = random_tokens(40, 1);
  Engine engine(model, 2);
  RaggedCache cache = engine.make_cache(RowType::float32);
  const Matrix logits = engine.forward(cache, tokens, all_rows(40));
  REQUIRE(logits.rows() == 40);
  REQUIRE(logits.cols() == 200);
  ReferenceModel reference(model);
  double largest = 0.0;
  for (Index t = 0; t < 40; ++t) {
    const Row expected = reference.forward(tokens[to_size(t)]);
    largest = std::max(largest, max_difference(logits, t, expected));
  }
  CHECK(largest < fp32_tolerance);
  CHECK(logits.cwiseAbs().maxCoeff() > 1.0f);
  CHECK(cache.next_position() == 40);
  CHECK(cache.total_rows() == 40 * 2 * 2);
}

TEST_CASE("mini_llama engine: whole, in chunks and token by token", "[mini_llama]") {
  const Model model = load(TinyModel());
  const RowType type = GENERATE(RowType::float32, RowType::float16);
  const double tolerance = type == RowType::float32 ? fp32_tolerance : half_tolerance;
  const auto tokens = random_tokens(300, 2);
  Engine engine(model, 1);
  RaggedCache whole = engine.make_cache(type);
  const Matrix logits = engine.forward(whole, tokens, all_rows(300));

  for (const Index chunk : {7, 128, 300, 1000}) {
    RaggedCache cache = engine.make_cache(type);
    const Vector last = engine.prefill(cache, tokens, chunk);
    CHECK(max_difference(last.transpose(), logits.bottomRows(1)) < tolerance);
    CHECK(cache.next_position() == 300);
    CHECK(cache.bytes() == whole.bytes());
  }
  RaggedCache cache = engine.make_cache(type);
  double largest = 0.0;
  for (Index t = 0; t < 300; ++t) {
    const Vector one = engine.decode(cache, tokens[to_size(t)]);
    largest = std::max(largest, max_difference(one.transpose(), logits.middleRows(t, 1)));
  }
  CHECK(largest < tolerance);
}

TEST_CASE("mini_llama engine: the number of threads changes no bit", "[mini_llama]") {
  const Model model = load(TinyModel());
  const auto tokens = random_tokens(300, 3);
  std::vector<Matrix> logits;
  for (const int threads : {1, 2, 3}) {
    Engine engine(model, threads);
    RaggedCache cache = engine.make_cache(RowType::float16);
    engine.prefill(cache, std::span(tokens).first(200), 64);
    logits.push_back(engine.forward(cache, std::span(tokens).subspan(200), all_rows(100)));
  }
  CHECK(logits[0] == logits[1]);
  CHECK(logits[0] == logits[2]);
}

TEST_CASE("mini_llama engine: going on after rows were removed equals the same in double",
          "[mini_llama]") {
  const Model model = load(TinyModel());
  const Index context = 60;
  const Index more = GENERATE(1, 35);
  const auto tokens = random_tokens(context + more, 4);
  Engine engine(model, 2);
  RaggedCache cache = engine.make_cache(RowType::float32);
  engine.prefill(cache, std::span(tokens).first(to_size(context)), 25);
  const std::int64_t bytes_before = cache.bytes();
  ReferenceModel reference(model);
  for (Index t = 0; t < context; ++t) reference.forward(tokens[to_size(t)]);

  for (Index layer = 0; layer < 2; ++layer) {
    for (Index head = 0; head < 2; ++head) {
      evict(cache, layer, head, keeps);
      std::erase_if(reference.rows(layer, head),
                    [&](const CacheRow& row) { return !keeps(layer, head, row.position); });
      REQUIRE(cache.rows(layer, head) == std::ssize(reference.rows(layer, head)));
    }
  }
  CHECK(cache.rows(0, 0) != cache.rows(0, 1));
  CHECK(cache.bytes() < bytes_before / 2);
  CHECK(cache.capacity_bytes() == cache.bytes());

  const Matrix logits =
      engine.forward(cache, std::span(tokens).subspan(to_size(context)), all_rows(more));
  for (Index t = 0; t < more; ++t) {
    const Row expected = reference.forward(tokens[to_size(context + t)]);
    CHECK(max_difference(logits, t, expected) < fp32_tolerance);
  }
  CHECK(cache.next_position() == context + more);
}

TEST_CASE("mini_llama engine: half rows equal rows rounded to half in double", "[mini_llama]") {
  const Model model = load(TinyModel());
  const auto tokens = random_tokens(50, 5);
  Engine engine(model, 1);
  RaggedCache cache = engine.make_cache(RowType::float16);
  const Matrix logits = engine.forward(cache, tokens, all_rows(50));
  ReferenceModel reference(model);
  reference.round_row_element = [](double x) {
    return half_to_float(float_to_half(static_cast<float>(x)));
  };
  for (Index t = 0; t < 50; ++t) {
    const Row expected = reference.forward(tokens[to_size(t)]);
    CHECK(max_difference(logits, t, expected) < half_tolerance);
  }
}

TEST_CASE("mini_llama engine: logits of chosen rows only", "[mini_llama]") {
  const Model model = load(TinyModel());
  const auto tokens = random_tokens(9, 6);
  Engine engine(model, 1);
  RaggedCache first = engine.make_cache(RowType::float32);
  RaggedCache second = first;
  RaggedCache third = first;
  const Matrix all = engine.forward(first, tokens, all_rows(9));
  const Matrix chosen = engine.forward(second, tokens, std::vector<Index>{8, 2, 2});
  REQUIRE(chosen.rows() == 3);
  // Three rows and nine rows take different products.
  CHECK(max_difference(chosen.row(0), all.row(8)) < fp32_tolerance);
  CHECK(max_difference(chosen.row(1), all.row(2)) < fp32_tolerance);
  CHECK(chosen.row(1) == chosen.row(2));
  CHECK(engine.forward(third, tokens, {}).size() == 0);
  CHECK(third.next_position() == 9);
}

TEST_CASE("mini_llama engine: the observer sees queries before and after RoPE", "[mini_llama]") {
  const Model model = load(TinyModel());
  const auto tokens = random_tokens(10, 7);
  Engine engine(model, 2);
  RaggedCache cache = engine.make_cache(RowType::float32);
  std::vector<std::pair<Index, std::int32_t>> calls;
  std::vector<Matrix> outputs;
  const auto observer = [&](const LayerQueries& q) {
    calls.emplace_back(q.layer, q.positions.front());
    REQUIRE(q.pre_rope.rows() == std::ssize(q.positions));
    REQUIRE(q.pre_rope.cols() == 60);
    REQUIRE(q.post_rope.cols() == 60);
    for (Index t = 0; t < q.pre_rope.rows(); ++t) {
      const std::int32_t position = q.positions[to_size(t)];
      REQUIRE(position == q.positions.front() + t);
      for (Index h = 0; h < 6; ++h) {
        const auto before = q.pre_rope.row(t).segment(h * 10, 10);
        const auto after = q.post_rope.row(t).segment(h * 10, 10);
        for (Index i = 0; i < 4; ++i) {
          const double angle = position * model.rope_frequencies()[to_size(i)];
          const double x = before[2 * i] * std::cos(angle) - before[2 * i + 1] * std::sin(angle);
          const double y = before[2 * i] * std::sin(angle) + before[2 * i + 1] * std::cos(angle);
          REQUIRE(std::abs(after[2 * i] - x) < fp32_tolerance);
          REQUIRE(std::abs(after[2 * i + 1] - y) < fp32_tolerance);
        }
        REQUIRE(after.tail(2) == before.tail(2));
      }
    }
    outputs.push_back(engine.attention_output(cache, q.layer, {q.post_rope, q.positions}));
  };
  const Vector observed = engine.prefill(cache, tokens, 6, {}, observer);
  CHECK(calls == std::vector<std::pair<Index, std::int32_t>>{{0, 0}, {1, 0}, {0, 6}, {1, 6}});
  REQUIRE(outputs.size() == 4);
  CHECK(outputs[3].rows() == 4);
  CHECK(outputs[3].cols() == 42);
  CHECK(outputs[3].cwiseAbs().maxCoeff() > 0.0f);

  RaggedCache unobserved = engine.make_cache(RowType::float32);
  CHECK(engine.prefill(unobserved, tokens, 6) == observed);
}

TEST_CASE("mini_llama engine: a pass that fails leaves the cache as it was", "[mini_llama]") {
  const Model model = load(TinyModel());
  const auto tokens = random_tokens(12, 8);
  Engine engine(model, 2);
  RaggedCache cache = engine.make_cache(RowType::float32);
  engine.prefill(cache, std::span(tokens).first(5));
  const RaggedCache before = cache;
  const auto observer = [](const LayerQueries& q) {
    if (q.layer == 1) throw std::runtime_error("observer failed");
  };
  CHECK(throws_with<std::runtime_error>(
      [&] { engine.forward(cache, std::span(tokens).subspan(5), {}, observer); },
      {"observer failed"}));
  CHECK(cache.next_position() == before.next_position());
  CHECK(cache.bytes() == before.bytes());
  RaggedCache copy = before;
  CHECK(engine.decode(cache, 3) == engine.decode(copy, 3));
}

TEST_CASE("mini_llama engine: several sequences at once get what each gets alone", "[mini_llama]") {
  const Model model = load(TinyModel());
  Engine engine(model, 2);
  struct Sequence {
    RaggedCache cache;
    std::vector<TokenId> tokens;
    std::vector<Index> rows;
    std::vector<Matrix> observed;
  };
  // Different places, ragged heads, lengths of one token and of several tiles, both row types, no
  // logits at all.
  std::vector<Sequence> together;
  for (const Index before : {0, 7, 60, 33}) {
    const auto number = static_cast<Index>(together.size());
    Sequence sequence{engine.make_cache(number == 2 ? RowType::float16 : RowType::float32),
                      random_tokens(number == 3 ? 70 : 1 + 2 * number, 20),
                      {},
                      {}};
    if (before > 0) engine.prefill(sequence.cache, random_tokens(before, 21));
    if (number == 2) {
      for (Index layer = 0; layer < 2; ++layer) sequence.cache.shrink(layer, 1, 5 + 3 * layer);
    }
    if (number != 1) sequence.rows = {0, std::ssize(sequence.tokens) - 1};
    together.push_back(std::move(sequence));
  }
  std::vector<Sequence> alone = together;
  std::vector<SequenceChunk> chunks;
  for (Sequence& one : together) {
    chunks.push_back({one.cache, one.tokens, one.rows, [&one](const LayerQueries& q) {
                        one.observed.push_back(q.pre_rope);
                        one.observed.push_back(q.post_rope);
                      }});
  }
  const std::vector<Matrix> logits = engine.forward(chunks);
  REQUIRE(logits.size() == 4);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    INFO(i);
    Sequence& one = alone[i];
    const double tolerance = i == 2 ? half_tolerance : fp32_tolerance;
    const Matrix want =
        engine.forward(one.cache, one.tokens, one.rows, [&one](const LayerQueries& q) {
          one.observed.push_back(q.pre_rope);
          one.observed.push_back(q.post_rope);
        });
    REQUIRE(logits[i].rows() == std::ssize(one.rows));
    if (want.size() > 0) CHECK(max_difference(logits[i], want) < tolerance);
    CHECK(together[i].cache.next_position() == one.cache.next_position());
    CHECK(together[i].cache.bytes() == one.cache.bytes());
    REQUIRE(together[i].observed.size() == 4);
    for (std::size_t k = 0; k < 4; ++k) {
      CHECK(max_difference(together[i].observed[k], one.observed[k]) < tolerance);
    }
    const Vector next = engine.decode(together[i].cache, 9);
    CHECK(max_difference(next.transpose(), engine.decode(one.cache, 9).transpose()) < tolerance);
  }
}

TEST_CASE("mini_llama engine: a batch that fails leaves every cache as it was", "[mini_llama]") {
  const Model model = load(TinyModel());
  Engine engine(model, 2);
  std::vector<RaggedCache> caches(2, engine.make_cache(RowType::float32));
  for (RaggedCache& cache : caches) engine.prefill(cache, random_tokens(5, 22));
  const std::vector<RaggedCache> before = caches;
  const auto tokens = random_tokens(3, 23);
  const auto failing = [](const LayerQueries& q) {
    if (q.layer == 1) throw std::runtime_error("observer failed");
  };
  const TokenId unknown = 200;
  CHECK(throws_with<std::runtime_error>(
      [&] {
        engine.forward(std::vector<SequenceChunk>{{caches[0], tokens, {}, {}},
                                                  {caches[1], tokens, {}, failing}});
      },
      {"observer failed"}));
  CHECK(throws_with<ArgumentError>(
      [&] {
        engine.forward(std::vector<SequenceChunk>{{caches[0], tokens, {}, {}},
                                                  {caches[1], {&unknown, 1}, {}, {}}});
      },
      {"token id is 200"}));
  CHECK(throws_with<ArgumentError>(
      [&] {
        engine.forward(std::vector<SequenceChunk>{
            {caches[1], tokens, {}, {}}, {caches[0], tokens, {}, {}}, {caches[1], tokens, {}, {}}});
      },
      {"sequences 0 and 2 are the same cache"}));
  CHECK(throws_with<ArgumentError>([&] { engine.forward(std::span<const SequenceChunk>{}); },
                                   {"no sequence"}));
  for (std::size_t i = 0; i < caches.size(); ++i) {
    CHECK(caches[i].next_position() == 5);
    CHECK(caches[i].bytes() == before[i].bytes());
    RaggedCache copy = before[i];
    CHECK(engine.decode(caches[i], 3) == engine.decode(copy, 3));
  }
}

TEST_CASE("mini_llama engine: progress counts tokens and can cancel", "[mini_llama]") {
  const Model model = load(TinyModel());
  const auto tokens = random_tokens(20, 9);
  Engine engine(model, 1);
  RaggedCache cache = engine.make_cache(RowType::float32);
  std::vector<Index> seen;
  const auto progress = [&](Index done, Index total) {
    CHECK(total == 20);
    seen.push_back(done);
    if (done >= 16) throw std::runtime_error("cancelled");
  };
  CHECK(throws_with<std::runtime_error>([&] { engine.prefill(cache, tokens, 8, progress); },
                                        {"cancelled"}));
  CHECK(seen == std::vector<Index>{8, 16});
  CHECK(cache.next_position() == 16);
  CHECK_NOTHROW(cache.check());
}

TEST_CASE("mini_llama engine: arguments that are not possible", "[mini_llama]") {
  const Model model = load(TinyModel());
  Engine engine(model, 1);
  RaggedCache cache = engine.make_cache(RowType::float32);
  engine.prefill(cache, random_tokens(10, 10));
  const auto fails = [&](const std::vector<TokenId>& tokens, const std::vector<Index>& rows,
                         std::initializer_list<std::string_view> parts) {
    return throws_with<ArgumentError>([&] { engine.forward(cache, tokens, rows); }, parts);
  };
  CHECK(fails({}, {}, {"0 tokens", "1 to 390"}));
  CHECK(fails(random_tokens(391, 1), {}, {"391 tokens", "1 to 390", "context of 400"}));
  CHECK(fails({1, 200}, {}, {"token id is 200"}));
  CHECK(fails({-1}, {}, {"token id is -1"}));
  CHECK(fails({1, 2}, {2}, {"logit row is 2", "2 tokens"}));
  CHECK(fails({1, 2}, {-1}, {"logit row is -1"}));
  CHECK(throws_with<ArgumentError>([&] { engine.prefill(cache, random_tokens(2, 1), 0); },
                                   {"chunk is 0"}));
  CHECK(throws_with<ArgumentError>([&] { engine.prefill(cache, random_tokens(391, 1)); },
                                   {"391 tokens"}));
  RaggedCache other({2, 2, 10, 8, RowType::float32});
  CHECK(throws_with<ArgumentError>([&] { engine.decode(other, 1); }, {"another shape"}));
  cache.positions(1, 0)[3] = 2;
  CHECK(fails({1}, {}, {"layer 1, head 0"}));
  CHECK(cache.next_position() == 10);
  CHECK(cache.total_rows() == 40);
}

TEST_CASE("mini_llama engine: greedy generation", "[mini_llama]") {
  const Model model = load(TinyModel());
  Engine engine(model, 1);
  RaggedCache start = engine.make_cache(RowType::float32);
  const Vector logits = engine.prefill(start, random_tokens(10, 11));

  RaggedCache cache = start;
  const std::vector<TokenId> tokens = generate(engine, cache, logits, 8, std::nullopt);
  REQUIRE(tokens.size() == 8);
  CHECK(cache.next_position() == 18);
  RaggedCache step = start;
  Vector last = logits;
  for (const TokenId token : tokens) {
    CHECK(token == argmax(last));
    last = engine.decode(step, token);
  }

  const TokenId end = tokens[3];
  const auto first =
      static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), end) - tokens.begin());
  cache = start;
  CHECK(generate(engine, cache, logits, 8, end).size() == first);
  cache = start;
  std::vector<TokenId> seen;
  const auto stop_after_two = [&](TokenId token) {
    seen.push_back(token);
    return seen.size() < 2;
  };
  CHECK(generate(engine, cache, logits, 8, std::nullopt, stop_after_two) == seen);
  CHECK(seen == std::vector<TokenId>(tokens.begin(), tokens.begin() + 2));
}

TEST_CASE("mini_llama engine: the first of equal logits is the largest", "[mini_llama]") {
  Vector logits(4);
  logits << -1.0f, 2.0f, 0.0f, 2.0f;
  CHECK(argmax(logits) == 1);
}

}  // namespace

}  // namespace mini_llama_engine_test
