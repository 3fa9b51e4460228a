// SPDX-License-Identifier: Apache-2.0
// Sequences that begin or go on in unusual ways.
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decode/engine.hpp"
#include "kvevict/cpu/rerotate_keys.hpp"
#include "kvevict/cpu/shared_scores.hpp"
#include "kvevict/reshape_selection.hpp"
#include "reference/rope.hpp"

namespace sequences_test {

using namespace kvevict_test;

using kvevict::Accumulation;
using kvevict::Budget;
using kvevict::DecodeSchedule;
using kvevict::GlobalBudget;
using kvevict::H2O;
using kvevict::Selection;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 64};

bool ascending(const std::vector<std::int32_t>& held) {
  return std::adjacent_find(held.begin(), held.end(), std::greater_equal<>()) == held.end();
}

}  // namespace

TEST_CASE("a prompt evicted by one policy goes on with any other", "[decode]") {
  const IdentityProjection projection(shape);
  TestResources res({.threads = 1});
  for (const TestPolicy& policy : decode_policies()) {
    INFO(policy.name());
    Engine<float> engine(CacheLayout::per_head, shape, 50);
    engine.append(0, 40);
    Selection kept;
    kvevict::evict_into(res, kept, TestPolicy::named("KNorm"),
                        kvevict::KvView<const float>(engine.view()), {}, Budget::rows(18));
    compact(res, kept, engine.view());
    engine.keep(kept);
    Evictor evictor(policy, shape.decode(),
                    {.row_limit = 24, .slack = 2, .protect = kvevict::Protect{.recent = 4}},
                    short_memory());
    const std::vector<std::int64_t> rows = {18, 18};
    evictor.reset(40, rows);
    REQUIRE(evictor.dropped(0) == 22);
    for (int step = 0; step < 60; ++step) {
      decode_step(res, evictor, engine, kept, 1, projection.evidence());
      REQUIRE(engine.longest() <= 24);
      REQUIRE(engine.differences() == 0);
      REQUIRE(ascending(engine.held(0)));
      REQUIRE(engine.held(1).back() == 40 + step);
    }
  }
}

TEST_CASE("mass that the caller gives serves before any was observed", "[decode]") {
  TestResources res({.threads = 1});
  Engine<float> engine(CacheLayout::hnd, shape, 51);
  engine.append(0, 30);
  Selection kept;
  Evictor evictor(TestPolicy::named("H2O"), shape.decode(),
                  {.row_limit = 20, .protect = unprotected}, short_memory());
  evictor.reset(30);
  std::vector<float> mass(60);
  std::iota(mass.begin(), mass.end(), 1.0f);
  kvevict::Evidence<> given;
  given.attention_mass = {mass.data(), kvevict::RowLayout<>::uniform(2, 30)};
  REQUIRE(evictor.make_room(res, kept, engine.view(), 1, given));
  engine.keep(kept);
  CHECK(engine.held(0).front() == 11);  // the 19 with the largest mass
  CHECK(engine.differences() == 0);
  for (int step = 0; step < 30; ++step) decode_step(res, evictor, engine, kept, 1);
  CHECK(engine.rows(0) == 20);
}

TEST_CASE("H2O in an evictor accumulates as by hand", "[decode]") {
  for (const H2O& policy : {H2O{.accumulation = Accumulation::mean},
                            H2O{.accumulation = Accumulation::decay, .decay = 0.9}}) {
    TestResources res({.threads = 1});
    const DecodeSchedule schedule{.row_limit = 16, .protect = kvevict::Protect{.recent = 3}};
    Evictor evictor(policy, shape.decode(), schedule);
    Engine<float> engine(CacheLayout::hnd, shape, 52);
    Engine<float> by_hand(CacheLayout::hnd, shape, 52);
    H2O::State state(policy);
    Selection kept;
    Selection kept_by_hand;
    for (int step = 0; step < 80; ++step) {
      const bool evicted = decode_step(res, evictor, engine, kept, 1);
      if (by_hand.rows(0) == 16) {
        kvevict::evict_into(res, kept_by_hand, TestPolicy(policy),
                            kvevict::KvView<const float>(by_hand.view()),
                            {.attention_mass = state.mass()}, Budget::rows(15), *schedule.protect);
        compact(res, kept_by_hand, by_hand.view());
        state.compact(res, kept_by_hand);
        by_hand.keep(kept_by_hand);
        REQUIRE(evicted);
        REQUIRE(kept == kept_by_hand);
      }
      by_hand.append(step, 1);
      const TokenQueries queries = by_hand.queries(step, 1);
      observe(res, state, kvevict::KvView<const float>(by_hand.view()),
              {queries.post(), kvevict::QueryPositions<>::consecutive(step)});
    }
    REQUIRE(engine.held(1) == by_hand.held(1));
  }
}

TEST_CASE("a target of nothing keeps a row", "[decode]") {
  const IdentityProjection projection(shape);
  TestResources res({.threads = 1});
  for (const TestPolicy& policy : decode_policies()) {
    for (const Budget& target : {Budget::rows(0), Budget::evict_ratio(1.0)}) {
      INFO(policy.name());
      Evictor evictor(policy, shape.decode(),
                      {.interval = 1, .target = target, .protect = unprotected}, short_memory());
      Engine<float> engine(CacheLayout::hnd, shape, 53);
      Selection kept;
      decode_step(res, evictor, engine, kept, 9, projection.evidence());
      for (int step = 0; step < 20; ++step) {
        REQUIRE(evictor.make_room(res, kept, engine.view(), 0, projection.evidence()));
        engine.keep(kept);
        REQUIRE(engine.longest() <= 1);
        const std::int64_t next = evictor.next_position();
        engine.append(next, 1);
        evictor.observe(res, engine.view(), 1, engine.queries(next, 1).view());
        REQUIRE(engine.differences() == 0);
      }
    }
  }
}

TEST_CASE("heads that lose all their rows go on", "[decode]") {
  const IdentityProjection projection(shape);
  TestResources res({.threads = 1});
  for (const TestPolicy& policy : decode_policies()) {
    INFO(policy.name());
    Evictor evictor(policy, shape.decode(),
                    {.row_limit = 20, .head_limit = 40, .protect = unprotected}, short_memory());
    Engine<float> engine(CacheLayout::paged_by_head, shape, 54);
    engine.append(0, 23);
    engine.keep(selection_of({rows_from(0, 23), {}}));
    const std::vector<std::int64_t> rows = {23, 0};
    evictor.reset(23, rows);
    Selection kept;
    for (int step = 0; step < 60; ++step) {
      decode_step(res, evictor, engine, kept, 1, projection.evidence(),
                  GlobalBudget{.floor = 0, .allow_incomparable = true});
      REQUIRE(engine.total() <= 40);
      REQUIRE(engine.differences() == 0);
      REQUIRE(evictor.rows(1) == engine.rows(1));
    }
    Evictor other(policy, shape.decode(),
                  {.row_limit = 20, .head_limit = 40, .protect = unprotected}, short_memory());
    other.restore(res, evictor.save(res));
    REQUIRE(other.rows(1) == engine.rows(1));
  }
}

TEST_CASE("a sequence behind padding is the sequence", "[decode]") {
  // Positions 0 and 1 are padding, which is never appended: what follows is what it is alone.
  // Policies that see positions only through their order and distance, or are told.
  for (const char* const name : {"KNorm", "KeyDiff", "SnapKV", "H2O", "TOVA", "StreamingLLM"}) {
    INFO(name);
    TestResources res({.threads = 1});
    Evictor alone(TestPolicy::named(name), shape.decode(),
                  {.row_limit = 16, .protect = kvevict::Protect{.sinks = 2, .recent = 3}},
                  short_memory());
    TestPolicy behind = TestPolicy::named(name);
    if (behind.name() == "StreamingLLM") behind.set("sinks=6");
    Evictor padded(behind, shape.decode(),
                   {.row_limit = 16, .protect = kvevict::Protect{.sinks = 4, .recent = 3}},
                   short_memory());
    Engine<float> engine(CacheLayout::hnd, shape, 55);
    Engine<float> shifted(CacheLayout::hnd, shape, 55);
    shifted.shift_contents(2);
    const std::vector<std::int64_t> none = {0, 0};
    padded.reset(2, none);
    Selection kept;
    for (int step = 0; step < 50; ++step) {
      decode_step(res, alone, engine, kept, 1);
      decode_step(res, padded, shifted, kept, 1);
      std::vector<std::int32_t> want = engine.held(0);
      for (std::int32_t& position : want) position += 2;
      REQUIRE(shifted.held(0) == want);
      REQUIRE(shifted.differences() == 0);
    }
    CHECK(padded.next_position() == alone.next_position() + 2);
  }
}

TEST_CASE("keys that are turned to their places after every eviction", "[decode]") {
  // An engine that counts rotary positions by rows: the stored position names the token, another
  // list says what each key is rotated to. Five hundred evictions, each of which turns what moved.
  const kvevict::Rope rope{.theta = 1e4};
  reference::Rope exact;
  for (std::int64_t pair = 0; pair < 2; ++pair)
    exact.frequencies.push_back(rope.frequency(pair, 4));
  TestResources res({.threads = 1});
  constexpr std::int64_t limit = 12;
  const kvevict::RowLayout<> layout = kvevict::RowLayout<>::uniform(1, limit);
  std::vector<float> memory(limit * 4);
  std::vector<std::int32_t> tokens;  // that the rows are of
  std::vector<std::int32_t> rotary;  // what their keys are rotated to
  std::vector<int> turns;            // how often each was turned
  const Random random(6);
  const auto raw = [&](std::int32_t token, std::size_t c) {
    return random.uniform(static_cast<std::uint64_t>(token) * 4 + c, -2.0, 2.0);
  };
  const auto rotated = [&](std::int32_t token, std::int64_t position) {
    reference::Matrix key(1, 4);
    for (std::size_t c = 0; c < 4; ++c) key(0, c) = raw(token, c);
    return reference::rotated(key, {position}, exact);
  };
  for (std::int32_t token = 0; token < 512; ++token) {
    if (tokens.size() == limit) {
      // Two sinks stay, then a row drawn by chance goes.
      const auto gone = 2 + random.integer(static_cast<std::uint64_t>(token) + 9000, limit - 3);
      std::vector<std::int32_t> stay;
      for (std::int32_t i = 0; i < limit; ++i) {
        if (i != gone) stay.push_back(i);
      }
      const Selection kept = selection_of({stay});
      const auto rows = kvevict::RowsView<float>::packed(memory.data(), layout, 4, 4);
      compact_rows(res, kept.view(), rows);
      const auto erase = [&](auto& list) { list.erase(list.begin() + gone); };
      erase(tokens);
      erase(rotary);
      erase(turns);
      const auto left = kvevict::RowsView<float>::packed(memory.data(), kept.layout(), 4, 4);
      rerotate_keys(res, left, kvevict::Positions<>::packed(rotary.data()),
                    kvevict::Positions<>::consecutive(), rope);
      for (std::size_t i = 0; i < rotary.size(); ++i) {
        turns[i] += rotary[i] == static_cast<std::int32_t>(i) ? 0 : 1;
        rotary[i] = static_cast<std::int32_t>(i);
      }
    }
    const auto row = tokens.size();
    const reference::Matrix key = rotated(token, static_cast<std::int64_t>(row));
    for (std::size_t c = 0; c < 4; ++c) memory[row * 4 + c] = static_cast<float>(key(0, c));
    tokens.push_back(token);
    rotary.push_back(static_cast<std::int32_t>(row));
    turns.push_back(0);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const reference::Matrix want = rotated(tokens[i], static_cast<std::int64_t>(i));
      for (std::size_t c = 0; c < 4; ++c) {
        // One rounding of numbers below 4 when it was stored, one for each turn.
        REQUIRE(std::abs(static_cast<double>(memory[i * 4 + c]) - want(0, c)) <=
                (1 + turns[i]) * 4 * 0x1p-24);
      }
    }
  }
}

TEST_CASE("whole pages are evicted while a sequence goes on", "[decode]") {
  // An engine that moves no row: it scores, frees pages and tells. The last page is in use partly,
  // so that rows are appended where the last one ends.
  for (const CacheLayout layout :
       {CacheLayout::paged, CacheLayout::paged_hnd, CacheLayout::paged_by_head}) {
    for (const char* const name : {"KNorm", "H2O", "SnapKV"}) {
      INFO(name << ", layout " << static_cast<int>(layout));
      TestResources res({.threads = 1});
      const TestPolicy policy = TestPolicy::named(name);
      Evictor evictor(policy, shape.decode(), {.row_limit = 40, .protect = unprotected},
                      short_memory());
      Engine<float> engine(layout, shape, 56);
      Selection blocks;
      int evictions = 0;
      for (int step = 0; step < 200; ++step) {
        if (engine.longest() == 40) {
          const auto view = kvevict::KvView<const float>(engine.view());
          REQUIRE(evictor.due(1));
          std::vector<float> scores(static_cast<std::size_t>(engine.total()));
          const kvevict::ScoreView<> out{scores.data(), view.layout()};
          kvevict::score_rows(res, policy, view, evictor.evidence(res), out);
          kvevict::select_blocks(res, blocks, out, kvevict::Positions<>(view.positions()),
                                 engine.blocks(), Budget::rows(20), {.sinks = 1, .recent = 3});
          const Selection rows = kvevict::rows_of_blocks(blocks, view.layout(), engine.blocks());
          evictor.commit(res, rows);
          engine.keep_blocks(blocks, rows);
          ++evictions;
          REQUIRE(engine.longest() <= 20);
          REQUIRE(engine.held(0).front() == 0);
        }
        const std::int64_t next = evictor.next_position();
        engine.append(next, 1);
        evictor.observe(res, engine.view(), 1, engine.queries(next, 1).view());
        REQUIRE(engine.differences() == 0);
        REQUIRE(evictor.rows(0) == engine.rows(0));
        REQUIRE(ascending(engine.held(1)));
      }
      CHECK(evictions > 5);
    }
  }
}

TEST_CASE("one set of rows for all heads while a sequence goes on", "[decode]") {
  // Heads that must keep the same rows: selected from what the evictor collected, told by commit.
  for (const char* const name : {"H2O", "TOVA", "ExpectedAttention"}) {
    INFO(name);
    TestResources res({.threads = 1});
    const TestPolicy policy = TestPolicy::named(name);
    Evictor evictor(policy, shape.decode(), {.row_limit = 24, .protect = unprotected},
                    short_memory());
    Engine<float> engine(CacheLayout::hnd, shape, 58);
    Selection kept;
    int evictions = 0;
    for (int step = 0; step < 150; ++step) {
      if (evictor.due(1)) {
        const kvevict::KvView<float> cache = engine.view();
        const auto view = kvevict::KvView<const float>(cache);
        std::vector<float> scores(static_cast<std::size_t>(engine.total()));
        const kvevict::ScoreView<> out{scores.data(), view.layout()};
        kvevict::score_rows(res, policy, view, evictor.evidence(res), out);
        kvevict::select_same_rows(res, kept, out, view, shape.heads, kvevict::GroupReduction::max,
                                  Budget::rows(20), {.sinks = 1, .recent = 4});
        evictor.commit(res, kept);
        compact(res, kept, cache);
        engine.keep(kept);
        ++evictions;
      }
      const std::int64_t next = evictor.next_position();
      engine.append(next, 1);
      evictor.observe(res, engine.view(), 1, engine.queries(next, 1).view());
      REQUIRE(engine.differences() == 0);
      REQUIRE(engine.held(0) == engine.held(1));
      REQUIRE(evictor.rows(1) == engine.rows(1));
    }
    CHECK(evictions > 20);
  }
}

TEST_CASE("turns are closed as a conversation goes on", "[decode]") {
  // After each turn of 12 tokens the cache is taken down to six rows more than before; what a turn
  // kept is not compressed again. Within a turn there is more room.
  TestResources res({.threads = 1});
  kvevict::SpanProtection<kvevict::KNorm> policy;
  Evictor evictor(policy, shape.decode(), {.row_limit = 60});
  Engine<float> engine(CacheLayout::paged, shape, 59);
  Selection kept;
  std::vector<std::int32_t> before[2];
  for (std::int64_t turn = 1; turn <= 6; ++turn) {
    evictor.set_schedule({.row_limit = 60});
    for (int step = 0; step < 4; ++step) {
      REQUIRE_FALSE(decode_step(res, evictor, engine, kept, 3));
    }
    evictor.set_schedule({.row_limit = 6 * turn, .protect = kvevict::Protect{.recent = 1}});
    REQUIRE(evictor.make_room(res, kept, engine.view(), 0));
    engine.keep(kept);
    REQUIRE(engine.differences() == 0);
    for (std::int64_t h = 0; h < 2; ++h) {
      const std::vector<std::int32_t>& now = engine.held(h);
      REQUIRE(engine.rows(h) == 6 * turn);
      REQUIRE(std::equal(before[h].begin(), before[h].end(), now.begin()));
      REQUIRE(now.back() == evictor.next_position() - 1);
      before[h] = now;
    }
    policy.closed = evictor.next_position();
    evictor.set_policy(TestPolicy(policy));
  }
}

TEST_CASE("a policy of other evidence does not take over", "[decode]") {
  TestResources res({.threads = 1});
  const auto named = [](const char* name, const char* setting = nullptr) {
    TestPolicy policy = TestPolicy::named(name);
    if (setting != nullptr) policy.set(setting);
    return policy;
  };
  const auto problem = [&](const TestPolicy& first, const TestPolicy& other) {
    Evictor evictor(first, shape.decode(), {.row_limit = 8, .protect = unprotected},
                    short_memory());
    const std::string text = refused([&] { evictor.set_policy(other); });
    CHECK(evictor.policy() == first);
    return text;
  };
  CHECK(problem(named("KNorm"), named("TOVA")) ==
        "policy is TOVA reduction=mean, must be one of the same evidence as KNorm");
  CHECK(problem(named("H2O"), named("H2O", "accumulation=mean")).substr(0, 13) == "policy is H2O");
  CHECK(problem(named("SnapKV"), named("SnapKV", "window=9")).substr(0, 16) == "policy is SnapKV");
  // Parameters that are no evidence may change, and policies that read the same.
  Evictor evictor(named("SnapKV"), shape.decode(), {.row_limit = 8, .protect = unprotected},
                  short_memory());
  evictor.set_policy(named("SnapKV", "kernel=3"));
  CHECK(evictor.policy() == named("SnapKV", "kernel=3"));
  CHECK(refused([&] {
          evictor.set_policy(TestPolicy(kvevict::SnapKV{.kernel = 0}));
        }).substr(0, 6) == "kernel");
  CHECK(refused([&] { evictor.set_schedule({.row_limit = 8, .slack = 8}); }) ==
        "slack is 8, must be below row_limit, 8");
  CHECK_FALSE(evictor.due(8));
  CHECK(evictor.due(9));
}

TEST_CASE("evidence that nobody collects is asked for by name", "[decode]") {
  TestResources res({.threads = 1});
  Evictor evictor(TestPolicy::named("QFilter"), shape.decode(), {.row_limit = 8});
  Engine<float> engine(CacheLayout::hnd, shape, 57);
  Selection kept;
  for (int step = 0; step < 8; ++step) decode_step(res, evictor, engine, kept, 1);
  const std::vector<std::byte> before = evictor.save(res);
  CHECK(refused([&] { evictor.make_room(res, kept, engine.view(), 1); }) ==
        "evidence.query_filter is missing, must be given for QFilter");
  CHECK(evictor.save(res) == before);
  CHECK(engine.differences() == 0);
  // Given with each eviction it serves.
  const std::vector<float> directions(static_cast<std::size_t>(shape.heads * shape.dim), 0.5f);
  kvevict::Evidence<> given;
  given.query_filter = {
      kvevict::MatrixView<const float>::packed(directions.data(), shape.heads, shape.dim)};
  for (int step = 0; step < 30; ++step) decode_step(res, evictor, engine, kept, 1, given);
  CHECK(engine.rows(0) == 8);
  CHECK(engine.differences() == 0);
}

}  // namespace sequences_test
