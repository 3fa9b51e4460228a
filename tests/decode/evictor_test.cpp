// SPDX-License-Identifier: Apache-2.0
// When a DecodeEvictor evicts, how far, and what it knows of the sequence.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decode/engine.hpp"
#include "kvevict/allocators/adaptive.hpp"
#include "kvevict/allocators/pyramid.hpp"

namespace evictor_test {

using namespace kvevict_test;

using kvevict::Budget;
using kvevict::DecodeSchedule;
using kvevict::GlobalBudget;
using kvevict::Selection;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 64};

TestPolicy named(const char* name) { return TestPolicy::named(name); }

}  // namespace

TEST_CASE("rows never exceed the limit, positions go on", "[decode]") {
  const IdentityProjection projection(shape);
  for (const TestPolicy& policy : decode_policies()) {
    for (const std::int64_t slack : {0, 5}) {
      INFO(policy.name() << ", slack " << slack);
      Evictor evictor(
          policy, shape.decode(),
          {.row_limit = 20, .slack = slack, .protect = kvevict::Protect{.sinks = 2, .recent = 4}},
          short_memory());
      Engine<float> engine(CacheLayout::hnd, shape, 1);
      TestResources res({.threads = 2});
      Selection kept;
      std::int64_t evictions = 0;
      std::int64_t seen = 0;
      for (int step = 0; step < 300; ++step) {
        const std::int64_t tokens = step == 0 ? 13 : 1;
        evictions += decode_step(res, evictor, engine, kept, tokens, projection.evidence()) ? 1 : 0;
        seen += tokens;
        REQUIRE(evictor.next_position() == seen);
        for (std::int64_t h = 0; h < shape.heads; ++h) {
          REQUIRE(engine.rows(h) <= 20);
          REQUIRE(evictor.rows(h) == engine.rows(h));
          REQUIRE(evictor.dropped(h) == seen - engine.rows(h));
          // Sinks and the newest rows are there.
          REQUIRE(engine.held(h)[1] == 1);
          REQUIRE(engine.held(h).back() == seen - 1);
          REQUIRE(engine.held(h)[engine.held(h).size() - 4] == seen - 4);
        }
        REQUIRE(engine.differences() == 0);
      }
      // Without slack every step above the limit evicts; with it, one of so many.
      CHECK(evictions == (slack == 0 ? 292 : (292 + slack - 1) / slack));
    }
  }
}

TEST_CASE("sinks and recent rows through ten thousand tokens", "[decode]") {
  Evictor evictor(named("StreamingLLM"), shape.decode(),
                  {.row_limit = 20 + 4, .protect = kvevict::Protect{.sinks = 4, .recent = 16}});
  Engine<kvevict::half> engine(CacheLayout::nhd, shape, 1);
  TestResources res({.threads = 1});
  Selection kept;
  while (evictor.next_position() < 10000) {
    decode_step(res, evictor, engine, kept, 4);
    REQUIRE(engine.longest() <= 24);
  }
  // What is left is named by its positions: the sinks, and the last rows in order.
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    std::vector<std::int32_t> want = {0, 1, 2, 3};
    want.resize(24);
    std::iota(want.begin() + 4, want.end(), 10000 - 20);
    CHECK(engine.held(h) == want);
  }
  CHECK(engine.differences() == 0);
}

TEST_CASE("a prompt in chunks stays within the limit", "[decode]") {
  for (const std::int64_t limit : {10, 18}) {
    for (const char* const name : {"SnapKV", "H2O", "ExpectedAttention", "Jacap"}) {
      INFO(name << " limit " << limit);
      Evictor evictor(named(name), shape.decode(),
                      {.row_limit = limit, .protect = kvevict::Protect{.recent = 2}},
                      short_memory());
      Engine<float> engine(CacheLayout::per_head, shape, 2);
      TestResources res({.threads = 2});
      Selection kept;
      for (int chunk = 0; chunk < 4; ++chunk) {
        decode_step(res, evictor, engine, kept, 8);
        REQUIRE(engine.longest() <= limit);
      }
      CHECK(evictor.next_position() == 32);
      CHECK(engine.rows(0) == limit);

      // A whole prompt that was appended without asking is taken down before the next row.
      evictor.reset();
      engine.reset();
      engine.append(0, 52);
      evictor.observe(res, engine.view(), 52, engine.queries(0, 52).view());
      CHECK(evictor.dropped(1) == 0);
      REQUIRE(decode_step(res, evictor, engine, kept, 1));
      CHECK(engine.rows(0) == limit);
      CHECK(evictor.dropped(1) == 53 - limit);
      CHECK(engine.differences() == 0);
    }
  }
}

TEST_CASE("a window is as long as the policy's", "[decode]") {
  // The last 6 queries and the last 3 rank rows differently; each evictor follows its policy. 90
  // are more than are held where nothing says how many.
  for (const std::int64_t window : {3, 6, 90}) {
    const kvevict::SnapKV policy{.window = window, .kernel = 1};
    const std::int64_t tokens = window + 14;
    EngineShape longer = shape;
    longer.capacity = tokens + 10;
    // Chunks of one row change nothing, but the policy is held by another.
    const bool held = window == 90;
    Evictor evictor(
        held ? TestPolicy(kvevict::ChunkWise<kvevict::SnapKV>{policy, 1}) : TestPolicy(policy),
        longer.decode(), {.row_limit = tokens, .protect = unprotected});
    Engine<float> engine(CacheLayout::hnd, longer, 9);
    TestResources res({.threads = 1});
    Selection kept;
    for (int step = 0; step < tokens; ++step) decode_step(res, evictor, engine, kept, 1);
    REQUIRE(evictor.select(res, kept, engine.view(), tokens - 10));
    const TokenQueries queries = engine.queries(tokens - window, window);
    const auto first = static_cast<std::int32_t>(tokens - window);
    Selection want;
    kvevict::evict_into(
        res, want, TestPolicy(policy), kvevict::KvView<const float>(engine.view()),
        {.query_window = {{queries.post(), kvevict::QueryPositions<>::consecutive(first)}}},
        kvevict::Budget::rows(10));
    CHECK(kept == want);
  }
}

TEST_CASE("the interval counts tokens since the last eviction", "[decode]") {
  Evictor evictor(named("KNorm"), shape.decode(), {.interval = 10, .target = Budget::rows(15)});
  Engine<float> engine(CacheLayout::hnd, shape, 3);
  TestResources res({.threads = 1});
  Selection kept;
  std::vector<std::int64_t> rows;
  for (int step = 0; step < 45; ++step) {
    decode_step(res, evictor, engine, kept, 1);
    rows.push_back(engine.rows(0));
  }
  // At 10 tokens there is nothing to evict yet; then every ten tokens down to 15 rows.
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const auto tokens = static_cast<std::int64_t>(t) + 1;
    CHECK(rows[t] == (tokens <= 20 ? tokens : 15 + (tokens - 1) % 10 + 1));
  }
}

TEST_CASE("a target follows the tokens seen", "[decode]") {
  Evictor evictor(named("KeyDiff"), shape.decode(),
                  {.interval = 1, .target = Budget::evict_ratio(0.75)});
  Engine<float> engine(CacheLayout::hnd, shape, 4);
  TestResources res({.threads = 1});
  Selection kept;
  for (std::int64_t seen = 0; seen < 100; ++seen) {
    decode_step(res, evictor, engine, kept, 1);
    // A quarter of what was seen before the step, at least one row, and the new one.
    const std::int64_t want = seen == 0 ? 0 : std::max<std::int64_t>(1, seen / 4);
    REQUIRE(engine.rows(0) == want + 1);
  }
}

TEST_CASE("a target in bytes is of all heads together", "[decode]") {
  // A row takes 2 x 4 x 2 bytes: 21 rows for two heads, the odd one for the first.
  Evictor evictor(named("KeyDiff"), shape.decode(),
                  {.interval = 4, .target = Budget::bytes(21 * 16 + 7)});
  Engine<kvevict::bfloat16> engine(CacheLayout::hnd, shape, 4);
  TestResources res({.threads = 1});
  Selection kept;
  for (int step = 0; step < 41; ++step) decode_step(res, evictor, engine, kept, 1);
  CHECK(engine.rows(0) == 12);
  CHECK(engine.rows(1) == 11);
}

TEST_CASE("what is protected outweighs a target, but not a limit", "[decode]") {
  Evictor evictor(named("Random"), shape.decode(),
                  {.row_limit = 30,
                   .interval = 1,
                   .target = Budget::rows(2),
                   .protect = kvevict::Protect{.recent = 9}});
  Engine<float> engine(CacheLayout::hnd, shape, 5);
  TestResources res({.threads = 1});
  Selection kept;
  for (int step = 0; step < 50; ++step) decode_step(res, evictor, engine, kept, 1);
  CHECK(engine.rows(0) == 10);
  CHECK(engine.rows(1) == 10);
}

TEST_CASE("with nothing incoming only what is due is done", "[decode]") {
  Evictor evictor(named("KNorm"), shape.decode(), {.row_limit = 10});
  Engine<float> engine(CacheLayout::hnd, shape, 6);
  TestResources res({.threads = 1});
  Selection kept;
  decode_step(res, evictor, engine, kept, 10);
  CHECK_FALSE(evictor.make_room(res, kept, engine.view(), 0));
  // A prompt that was appended without asking is taken down.
  engine.append(10, 20);
  evictor.observe(res, engine.view(), 20);
  REQUIRE(evictor.make_room(res, kept, engine.view(), 0));
  engine.keep(kept);
  CHECK(engine.rows(0) == 10);
  CHECK(engine.differences() == 0);
}

TEST_CASE("what is due is known before", "[decode]") {
  const DecodeSchedule at_limit{.row_limit = 20, .slack = 4, .protect = unprotected};
  const DecodeSchedule ragged{
      .row_limit = 20, .slack = 4, .head_limit = 35, .protect = unprotected};
  const DecodeSchedule at_times{.row_limit = 60, .interval = 7, .target = Budget::rows(12)};
  for (const DecodeSchedule& schedule : {at_limit, ragged, at_times}) {
    Evictor evictor(named("KNorm"), shape.decode(), schedule);
    Engine<float> engine(CacheLayout::per_head, shape, 16);
    TestResources res({.threads = 1});
    Selection kept;
    int evictions = 0;
    for (int step = 0; step < 200; ++step) {
      const std::int64_t incoming = step % 5;
      const bool due = evictor.due(incoming);
      const bool evicted = decode_step(res, evictor, engine, kept, incoming, {},
                                       GlobalBudget{.allow_incomparable = true});
      // Only the interval may find nothing to do.
      if (evicted) REQUIRE(due);
      if (due && schedule.interval == 0) REQUIRE(evicted);
      evictions += evicted ? 1 : 0;
    }
    CHECK(evictions > 20);
    CHECK(evictions < 150);
    CHECK(kvevict_test::refused([&] { evictor.due(-1); }).substr(0, 8) == "incoming");
  }
}

TEST_CASE("ragged heads share a limit and never outgrow their room", "[decode]") {
  const EngineShape wide{.heads = 4, .group = 1, .dim = 4, .capacity = 40};
  const GlobalBudget allocator{.floor = 3, .allow_incomparable = true};
  const IdentityProjection projection(wide);
  for (const TestPolicy& policy : decode_policies()) {
    INFO(policy.name());
    Evictor evictor(
        policy, wide.decode(),
        {.row_limit = 20, .slack = 4, .head_limit = 40, .protect = kvevict::Protect{.recent = 2}},
        short_memory());
    Engine<float> engine(CacheLayout::per_head, wide, 7);
    TestResources res({.threads = 2});
    Selection kept;
    for (int step = 0; step < 400; ++step) {
      const bool evicted = decode_step(res, evictor, engine, kept, step % 7 == 0 ? 3 : 1,
                                       projection.evidence(), allocator);
      REQUIRE(engine.longest() <= 40);
      REQUIRE(engine.total() <= 4 * 20);
      // What heads do not use, others do: an eviction leaves the whole of the limit but the slack.
      if (evicted) REQUIRE(kept.total() == 4 * 16);
    }
    CHECK(engine.differences() == 0);
  }
}

TEST_CASE("layers share a limit by pyramid, their heads by threshold", "[decode]") {
  const EngineShape wide{.heads = 4, .group = 1, .dim = 4, .capacity = 60};
  TestResources res({.threads = 2});
  const auto run = [&](const auto& allocator) {
    Evictor evictor(
        named("KNorm"), wide.decode(),
        {.row_limit = 20, .slack = 4, .head_limit = 60, .protect = kvevict::Protect{.recent = 2}});
    Engine<float> engine(CacheLayout::per_head, wide, 7);
    Selection kept;
    engine.append(0, 60);
    evictor.observe(res, engine.view(), 60);
    std::vector<std::int64_t> first;
    for (int step = 0; step < 200; ++step) {
      const bool evicted = decode_step(res, evictor, engine, kept, 1, {}, allocator);
      REQUIRE(engine.total() <= 4 * 20);
      if (evicted) REQUIRE(kept.total() == 4 * 16);
      for (std::int64_t h = 0; h < 4 && step == 0; ++h) first.push_back(kept.count(h));
    }
    REQUIRE(engine.differences() == 0);
    return first;
  };
  const auto pyramid = run(kvevict::PyramidBudget{.heads_per_layer = 2, .window = 4, .beta = 4});
  CHECK(pyramid[0] > pyramid[2]);
  CHECK(pyramid[0] == pyramid[1]);
  const auto adaptive =
      run(kvevict::AdaptiveBudget{.heads_per_layer = 2, .allow_incomparable = true});
  CHECK(adaptive[0] + adaptive[1] == adaptive[2] + adaptive[3]);
}

TEST_CASE("a ragged head at its room evicts although the total is low", "[decode]") {
  const EngineShape wide{.heads = 2, .group = 1, .dim = 4, .capacity = 24};
  Evictor evictor(named("KNorm"), wide.decode(), {.row_limit = 20, .head_limit = 24});
  // 23 rows in one head, 2 in the other.
  const std::vector<std::int64_t> rows = {23, 2};
  Engine<float> engine(CacheLayout::per_head, wide, 8);
  engine.append(0, 23);
  Selection kept;
  TestResources res({.threads = 1});
  std::int32_t* const indices = kept.reshape(rows);
  std::iota(indices, indices + 23, 0);
  std::iota(indices + 23, indices + 25, 0);
  engine.keep(kept);
  evictor.reset(23, rows);
  CHECK(evictor.dropped(1) == 21);
  const GlobalBudget allocator{.allow_incomparable = true};
  CHECK_FALSE(decode_step(res, evictor, engine, kept, 1, {}, allocator));
  CHECK(decode_step(res, evictor, engine, kept, 1, {}, allocator));
  CHECK(engine.rows(0) == 24);
  CHECK(engine.rows(1) == 4);
}

TEST_CASE("long sequences and short ones through one object", "[decode]") {
  const IdentityProjection projection(shape);
  const DecodeSchedule even{.row_limit = 16, .slack = 2, .protect = kvevict::Protect{.sinks = 1}};
  const DecodeSchedule ragged{
      .row_limit = 16, .slack = 2, .head_limit = 40, .protect = kvevict::Protect{.sinks = 1}};
  for (const TestPolicy& policy : decode_policies()) {
    for (const DecodeSchedule& schedule : {even, ragged}) {
      INFO(policy.name() << " " << schedule.ragged());
      Evictor reused(policy, shape.decode(), schedule, short_memory());
      TestResources res({.threads = 2});
      Selection kept;
      Selection other_kept;
      const auto step = [&](Evictor& evictor, Engine<float>& engine, Selection& rows) {
        if (schedule.ragged()) {
          decode_step(res, evictor, engine, rows, 1, projection.evidence(),
                      GlobalBudget{.allow_incomparable = true});
        } else {
          decode_step(res, evictor, engine, rows, 1, projection.evidence());
        }
      };
      std::uint64_t seed = 10;
      for (const int length : {200, 3, 17, 60, 1, 90}) {
        Evictor fresh(policy, shape.decode(), schedule, short_memory());
        Engine<float> one(CacheLayout::per_head, shape, ++seed);
        Engine<float> other(CacheLayout::per_head, shape, seed);
        reused.reset();
        for (int n = 0; n < length; ++n) {
          step(reused, one, kept);
          step(fresh, other, other_kept);
          REQUIRE(one.held(0) == other.held(0));
          REQUIRE(one.held(1) == other.held(1));
        }
        CHECK(reused.next_position() == length);
        CHECK(reused.save(res) == fresh.save(res));
      }
    }
  }
}

TEST_CASE("a batch in step is its sequences alone, bit by bit", "[decode]") {
  const EngineShape batch{.heads = 3, .group = 2, .dim = 4, .capacity = 32};
  const EngineShape single{.heads = 1, .group = 2, .dim = 4, .capacity = 32};
  const DecodeSchedule schedule{
      .row_limit = 20, .slack = 3, .protect = kvevict::Protect{.sinks = 2, .recent = 3}};
  const IdentityProjection projections(batch);
  const IdentityProjection projection(single);
  for (const TestPolicy& policy : decode_policies()) {
    // Random numbers belong to the number of the head.
    if (policy.name() == "Random") continue;
    INFO(policy.name());
    TestResources res({.threads = 3});
    Selection kept;
    Evictor together(policy, batch.decode(), schedule, short_memory());
    Engine<float> engine(CacheLayout::hnd, batch, 20);
    std::vector<std::vector<std::vector<std::int32_t>>> held(3);
    const auto tokens_of = [](int step) { return step % 10 == 3 ? 5 : 1; };
    for (int step = 0; step < 120; ++step) {
      decode_step(res, together, engine, kept, tokens_of(step), projections.evidence());
      for (std::int64_t h = 0; h < 3; ++h) {
        held[static_cast<std::size_t>(h)].push_back(engine.held(h));
      }
    }
    for (std::int64_t h = 0; h < 3; ++h) {
      Evictor alone(policy, single.decode(), schedule, short_memory());
      Engine<float> own(CacheLayout::per_head, single, 20);
      own.rename_head(h);
      for (int step = 0; step < 120; ++step) {
        decode_step(res, alone, own, kept, tokens_of(step), projection.evidence());
        REQUIRE(own.held(0) == held[static_cast<std::size_t>(h)][static_cast<std::size_t>(step)]);
      }
    }
  }
}

TEST_CASE("layouts and threads give the same rows: a prompt of 520, a limit of 256", "[decode]") {
  const EngineShape large{.heads = 2, .group = 2, .dim = 4, .capacity = 520};
  const IdentityProjection projection(large);
  for (const TestPolicy& policy : decode_policies()) {
    INFO(policy.name());
    std::vector<std::vector<std::int32_t>> want;
    std::vector<std::byte> want_state;
    for (const CacheLayout layout : all_layouts) {
      for (const int threads : {1, 3}) {
        TestResources res({.threads = threads});
        Selection kept;
        Evictor evictor(policy, large.decode(),
                        {.row_limit = 256, .protect = kvevict::Protect{.sinks = 4}},
                        short_memory());
        Engine<float> engine(layout, large, 30);
        engine.append(0, 520);
        evictor.observe(res, engine.view(), 520, engine.queries(0, 520).view());
        for (int step = 0; step < 12; ++step) {
          decode_step(res, evictor, engine, kept, 1, projection.evidence());
          REQUIRE(engine.rows(0) == 256);
        }
        const std::vector<std::vector<std::int32_t>> held = {engine.held(0), engine.held(1)};
        const std::vector<std::byte> state = evictor.save(res);
        if (want.empty()) want = held;
        if (want_state.empty()) want_state = state;
        REQUIRE(held == want);
        REQUIRE(state == want_state);
        REQUIRE(engine.differences() == 0);
      }
    }
  }
}

TEST_CASE("an engine that moves its rows itself tells what it did", "[decode]") {
  for (const char* const name : {"H2O", "SnapKV"}) {
    INFO(name);
    const DecodeSchedule schedule{.row_limit = 12, .slack = 2, .protect = unprotected};
    Evictor moving(named(name), shape.decode(), schedule, short_memory());
    Evictor telling(named(name), shape.decode(), schedule, short_memory());
    Engine<float> one(CacheLayout::hnd, shape, 40);
    Engine<float> other(CacheLayout::hnd, shape, 40);
    TestResources res({.threads = 1});
    Selection kept;
    for (int step = 0; step < 100; ++step) {
      decode_step(res, moving, one, kept, 1);
      if (telling.select(res, kept, other.view(), 1)) {
        kvevict::compact(res, kept, other.view());
        other.keep(kept);
        telling.commit(res, kept);
      }
      other.append(step, 1);
      telling.observe(res, other.view(), 1, other.queries(step, 1).view());
      REQUIRE(one.held(0) == other.held(0));
      REQUIRE(one.held(1) == other.held(1));
    }
  }
}

TEST_CASE("spans are named by position and belong to the evictor", "[decode]") {
  TestResources res({.threads = 1});
  Selection kept;
  std::vector<kvevict::PositionSpan> spans = {{5, 8}};
  Evictor evictor(named("KNorm"), shape.decode(),
                  {.row_limit = 12, .protect = kvevict::Protect{.spans = spans}});
  spans[0] = {100, 200};
  Engine<float> engine(CacheLayout::hnd, shape, 50);
  for (int step = 0; step < 200; ++step) decode_step(res, evictor, engine, kept, 1);
  for (const std::int32_t position : {5, 6, 7}) {
    CHECK(std::count(engine.held(0).begin(), engine.held(0).end(), position) == 1);
  }
}

}  // namespace evictor_test
