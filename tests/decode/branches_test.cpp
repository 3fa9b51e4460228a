// SPDX-License-Identifier: Apache-2.0
// Sequences that branch off, drafts that are not accepted, and the protection that policies
// suggest.
#include <algorithm>
#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decode/engine.hpp"
#include "kvevict/cpu/mass.hpp"

using namespace kvevict_test;

using kvevict::DecodeSchedule;
using kvevict::H2O;
using kvevict::LagKV;
using kvevict::Selection;
using kvevict::SnapKV;
using kvevict::suggested_schedule;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 32};
const DecodeSchedule schedule{.row_limit = 20, .slack = 2, .protect = {.sinks = 1}};

std::string budget_error(const auto& policy, std::int64_t row_limit) {
  return refused_budget([&] { suggested_schedule(policy, row_limit); });
}

}  // namespace

TEST_CASE("a copy of an evictor is a branch of its sequence", "[decode]") {
  static_assert(std::copyable<kvevict::DecodeEvictor<SnapKV>>);
  const IdentityProjection projection(shape);
  TestResources res({.threads = 1});
  for (const TestPolicy& policy : decode_policies()) {
    INFO(policy.name());
    Selection kept;
    Evictor trunk(policy, shape.decode(), schedule, short_memory());
    Engine<float> engine(CacheLayout::per_head, shape, 95);
    for (int step = 0; step < 30; ++step) {
      decode_step(res, trunk, engine, kept, 1, projection.evidence());
    }
    const std::vector<std::byte> state = trunk.save(res);
    Evictor branch = trunk;
    Engine<float> copied(CacheLayout::paged, shape, 95);
    copied.copy_rows_of(engine);
    for (int step = 0; step < 20; ++step) {
      decode_step(res, branch, copied, kept, 3, projection.evidence());
    }
    // The branch left no trace in the trunk, which goes the same way when it is told the same.
    REQUIRE(trunk.save(res) == state);
    for (int step = 0; step < 20; ++step) {
      decode_step(res, trunk, engine, kept, 3, projection.evidence());
    }
    REQUIRE(trunk.save(res) == branch.save(res));
    REQUIRE(engine.held(0) == copied.held(0));
    REQUIRE(copied.differences() == 0);
  }
}

TEST_CASE("drafts that are not accepted are never told of", "[decode]") {
  // Room is made for all drafts. Those that are not accepted leave the cache before `observe`,
  // which is given what stayed.
  constexpr std::int64_t drafts = 4;
  const IdentityProjection projection(shape);
  TestResources res({.threads = 1});
  for (const TestPolicy& policy : decode_policies()) {
    for (const CacheLayout layout : {CacheLayout::hnd, CacheLayout::paged, CacheLayout::ragged}) {
      INFO(policy.name() << ", layout " << static_cast<int>(layout));
      Selection kept;
      Evictor drafting(policy, shape.decode(), schedule, short_memory());
      Evictor plain(policy, shape.decode(), schedule, short_memory());
      Engine<float> with_drafts(layout, shape, 96);
      Engine<float> without(layout, shape, 96);
      for (std::int64_t step = 0; step < 40; ++step) {
        const std::int64_t accepted = step % (drafts + 1);
        const auto room = [&](Evictor& evictor, Engine<float>& engine) {
          if (evictor.make_room(res, kept, engine.view(), drafts, projection.evidence())) {
            engine.keep(kept);
          }
        };
        const std::int64_t next = plain.next_position();
        room(drafting, with_drafts);
        with_drafts.append(next, drafts);
        with_drafts.take_back(drafts - accepted);
        room(plain, without);
        without.append(next, accepted);
        for (const auto& [evictor, engine] :
             {std::pair(&drafting, &with_drafts), std::pair(&plain, &without)}) {
          evictor->observe(res, engine->view(), accepted, engine->queries(next, accepted).view());
        }
        REQUIRE(drafting.save(res) == plain.save(res));
        REQUIRE(with_drafts.held(1) == without.held(1));
        REQUIRE(with_drafts.differences() == 0);
      }
      CHECK(plain.dropped(0) > 0);
    }
  }
}

TEST_CASE("the schedule that a policy suggests protects what it is published with", "[decode]") {
  CHECK(suggested_schedule(H2O{}, 100).protect.recent == 50);
  CHECK(suggested_schedule(SnapKV{}, 100).protect.recent == 64);
  CHECK(suggested_schedule(LagKV{.lag = 20, .skip_first = 4}, 30).protect.sinks == 4);
  CHECK(suggested_schedule(LagKV{.lag = 20, .skip_first = 4}, 30).protect.recent == 20);
  CHECK(suggested_schedule(kvevict::KNorm{}, 100).protect.recent == 0);
  // Of policies that are held, the most of each; chosen at run time too.
  CHECK(suggested_schedule(kvevict::AnyPolicy(H2O{}), 41).protect.recent == 20);
  const kvevict::Blend<H2O, SnapKV> blend{.policies = {H2O{}, SnapKV{.window = 8}}};
  CHECK(suggested_schedule(blend, 10).protect.recent == 8);
  CHECK(suggested_schedule(blend, 40).protect.recent == 20);
  const kvevict::SpanProtection<H2O> turns{.closed = 6, .spans = {{9, 12}}};
  const DecodeSchedule of_turns = suggested_schedule(turns, 40);
  CHECK(of_turns.protect.sinks == 6);
  CHECK(of_turns.protect.recent == 20);
  REQUIRE(of_turns.protect.spans.size() == 1);
  // A limit below it is an error, before any row is there.
  const std::string bound = ", must be at least the sinks and recent rows that are protected";
  CHECK(budget_error(SnapKV{}, 63) == "row_limit is 63" + bound);
  CHECK(budget_error(LagKV{.lag = 20, .skip_first = 4}, 23) == "row_limit is 23" + bound);
  CHECK(budget_error(SnapKV{}, 64) == "nothing was thrown");
  CHECK(refused([] { suggested_schedule(H2O{}, 0); }) == "row_limit is 0, must be >= 1");
}

TEST_CASE("a prompt longer than the cache keeps its newest rows with H2O", "[decode]") {
  // Sums of attention favour old rows. Of a prompt of four times the limit, in chunks, and of what
  // is generated, the newest half is there at every moment.
  constexpr std::int64_t limit = 24;
  TestResources res({.threads = 1});
  const DecodeSchedule suggested = suggested_schedule(H2O{}, limit);
  REQUIRE(suggested.protect.recent == limit / 2);
  kvevict::DecodeEvictor<H2O> evictor(H2O{}, shape.decode(), suggested);
  Engine<float> engine(CacheLayout::hnd, shape, 97);
  Selection kept;
  for (int step = 0; step < 100; ++step) {
    const std::int64_t tokens = step < 24 ? 4 : 1;
    decode_step(res, evictor, engine, kept, tokens);
    REQUIRE(engine.longest() <= limit);
    REQUIRE(engine.differences() == 0);
    const std::int64_t seen = evictor.next_position();
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const std::int64_t newest = std::min(seen, limit / 2);
      for (std::int64_t i = 0; i < newest; ++i) {
        const auto at = static_cast<std::size_t>(engine.rows(h) - newest + i);
        REQUIRE(engine.held(h)[at] == seen - newest + i);
      }
    }
  }
  CHECK(evictor.next_position() == 4 * limit + 76);
}
