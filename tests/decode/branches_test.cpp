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

namespace branches_test {

using namespace kvevict_test;

using kvevict::DecodeSchedule;
using kvevict::H2O;
using kvevict::LagKV;
using kvevict::Selection;
using kvevict::SnapKV;
using kvevict::suggested_protection;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 32};
const DecodeSchedule schedule{.row_limit = 20, .slack = 2, .protect = kvevict::Protect{.sinks = 1}};

/// What an evictor says to a limit and nothing else.
template <class P>
std::string budget_error(const P& policy, std::int64_t row_limit) {
  return refused_budget(
      [&] { kvevict::DecodeEvictor<P>(policy, shape.decode(), {.row_limit = row_limit}); });
}

/// The newest `count` rows of every head are those of the last tokens seen.
template <class E>
void require_newest(const E& evictor, const Engine<float>& engine, std::int64_t count) {
  const std::int64_t seen = evictor.next_position();
  const std::int64_t newest = std::min(seen, count);
  for (std::int64_t h = 0; h < shape.heads; ++h) {
    REQUIRE(engine.rows(h) >= newest);
    for (std::int64_t i = 0; i < newest; ++i) {
      const auto at = static_cast<std::size_t>(engine.rows(h) - newest + i);
      REQUIRE(engine.held(h)[at] == seen - newest + i);
    }
  }
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

TEST_CASE("a policy suggests the protection that it is published with", "[decode]") {
  std::vector<kvevict::PositionSpan> spans;
  const auto suggested = [&](const auto& policy, std::int64_t rows) {
    return suggested_protection(policy, rows, spans);
  };
  CHECK(suggested(H2O{}, 100).recent == 50);
  CHECK(suggested(SnapKV{}, 100).recent == 64);
  CHECK(suggested(LagKV{.lag = 20, .skip_first = 4}, 30).sinks == 4);
  CHECK(suggested(LagKV{.lag = 20, .skip_first = 4}, 30).recent == 20);
  CHECK(suggested(kvevict::KNorm{}, 100).recent == 0);
  // Of policies that are held, the most of each; chosen at run time too.
  CHECK(suggested(kvevict::AnyPolicy(H2O{}), 41).recent == 20);
  const kvevict::Blend<H2O, SnapKV> blend{.policies = {H2O{}, SnapKV{.window = 8}}};
  CHECK(suggested(blend, 10).recent == 8);
  CHECK(suggested(blend, 40).recent == 20);
  using Turns = kvevict::SpanProtection<H2O>;
  const kvevict::Blend<Turns, Turns> turns{
      .policies = {{.closed = 6, .spans = {{9, 12}}}, {.closed = 4, .spans = {{20, 22}}}}};
  CHECK(suggested(turns, 40).sinks == 6);
  CHECK(suggested(turns, 40).recent == 20);
  REQUIRE(suggested(turns, 40).spans.size() == 2);
  CHECK(suggested(turns, 40).spans[1] == kvevict::PositionSpan{20, 22});
  CHECK(suggested(kvevict::KNorm{}, 40).spans.empty());
}

TEST_CASE("a limit below what the policy protects by itself is refused", "[decode]") {
  const std::string bound = ", must be at least the sinks and recent rows that are protected";
  CHECK(budget_error(SnapKV{}, 63) == "row_limit is 63" + bound);
  CHECK(budget_error(LagKV{.lag = 20, .skip_first = 4}, 23) == "row_limit is 23" + bound);
  CHECK(budget_error(kvevict::AnyPolicy(SnapKV{}), 63) == "row_limit is 63" + bound);
  CHECK(budget_error(SnapKV{}, 64) == "nothing was thrown");
  CHECK(budget_error(H2O{}, 1) == "nothing was thrown");
  // Later too, and then all stays as it was.
  kvevict::DecodeEvictor<SnapKV> evictor(SnapKV{.window = 8}, shape.decode(), {.row_limit = 16});
  CHECK(refused_budget([&] { evictor.set_schedule({.row_limit = 7}); }) ==
        "row_limit is 7" + bound);
  CHECK(refused_budget([&] {
          evictor.set_schedule({.row_limit = 7, .protect = kvevict::Protect{}});
        }) == "nothing was thrown");
  using Turns = kvevict::SpanProtection<kvevict::KNorm>;
  kvevict::DecodeEvictor<Turns> talking(Turns{.closed = 4}, shape.decode(), {.row_limit = 16});
  CHECK(refused_budget([&] { talking.set_policy(Turns{.closed = 17}); }) ==
        "row_limit is 16" + bound);
  CHECK(talking.policy() == Turns{.closed = 4});
}

TEST_CASE("what a policy protects by itself stays, whatever the target", "[decode]") {
  // Sums of attention favour old rows. Of a prompt of four times the limit, in chunks, and of what
  // is generated, the newest half of what an eviction leaves is there at every moment.
  constexpr std::int64_t limit = 24;
  const DecodeSchedule alone{.row_limit = limit};
  const DecodeSchedule with_slack{.row_limit = limit, .slack = 8};
  const DecodeSchedule to_target{.row_limit = limit, .target = kvevict::Budget::rows(10)};
  const DecodeSchedule at_times{.interval = 5, .target = kvevict::Budget::rows(12)};
  const std::pair<DecodeSchedule, std::int64_t> cases[] = {
      {alone, 10}, {with_slack, 8}, {to_target, 5}, {at_times, 6}};
  for (const auto& [given, newest] : cases) {
    CAPTURE(given.slack, given.interval, newest);
    TestResources res({.threads = 1});
    kvevict::DecodeEvictor<H2O> evictor(H2O{}, shape.decode(), given);
    Engine<float> engine(CacheLayout::hnd, shape, 97);
    Selection kept;
    for (int step = 0; step < 100; ++step) {
      decode_step(res, evictor, engine, kept, step < 24 ? 4 : 1);
      REQUIRE(engine.longest() <= limit);
      REQUIRE(engine.differences() == 0);
      require_newest(evictor, engine, newest);
    }
    CHECK(evictor.next_position() == 4 * limit + 76);
    CHECK(evictor.dropped(0) > 0);
  }
}

TEST_CASE("nothing is protected where the schedule says so", "[decode]") {
  // H2O lets the newest rows go then, which have received little yet.
  constexpr std::int64_t limit = 24;
  TestResources res({.threads = 1});
  kvevict::DecodeEvictor<H2O> evictor(H2O{}, shape.decode(),
                                      {.row_limit = limit, .protect = kvevict::Protect{}});
  Engine<float> engine(CacheLayout::hnd, shape, 97);
  Selection kept;
  for (int step = 0; step < 100; ++step) decode_step(res, evictor, engine, kept, 1);
  const auto& held = engine.held(0);
  CHECK(held[static_cast<std::size_t>(limit - limit / 2)] < 100 - limit / 2);
}

}  // namespace branches_test
