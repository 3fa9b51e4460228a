// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "decode/shadow_evidence.hpp"

namespace kvevict_test {

// KVEVICT_TEST_CHURN multiplies the number of steps.
inline int churn_factor() {
  const char* const text = std::getenv("KVEVICT_TEST_CHURN");
  return text == nullptr ? 1 : std::atoi(text);
}

inline kvevict::DecodeSchedule random_schedule(const EngineShape& shape, const Random& random,
                                               std::uint64_t& next) {
  kvevict::DecodeSchedule schedule;
  schedule.row_limit = 16 + random.integer(next++, 16);
  schedule.slack = random.integer(next++, 6);
  schedule.protect =
      kvevict::Protect{.sinks = random.integer(next++, 3), .recent = random.integer(next++, 5)};
  if (random.integer(next++, 2) == 0) schedule.head_limit = shape.capacity;
  if (random.integer(next++, 3) == 0) {
    schedule.interval = 1 + random.integer(next++, 12);
    const std::int64_t kind = random.integer(next++, 3);
    schedule.target = kind == 0   ? kvevict::Budget::rows(1 + random.integer(next++, 14))
                      : kind == 1 ? kvevict::Budget::evict_ratio(random.uniform(next++))
                                  : kvevict::Budget::bytes(600 + random.integer(next++, 600));
  }
  return schedule;
}

// One sequence that goes on: its engine, its evictor, and what they must agree with.
template <class T, class P>
struct Churned {
  EngineShape shape;
  Engine<T> engine;
  kvevict::DecodeEvictor<P> evictor;
  ShadowEvidence shadow;

  Churned(const P& policy, CacheLayout layout, const EngineShape& of,
          const kvevict::DecodeSchedule& schedule, const kvevict::DecodeEvidenceOptions& memory,
          std::uint64_t seed, std::shared_ptr<CacheMemory<T>> pages)
      : shape(of),
        engine(layout, of, seed, std::move(pages)),
        evictor(policy, of.decode(), schedule, memory),
        shadow(of, kvevict::accumulation_of(policy), memory.window) {}
  // A copy: the state is a value, the rows are copied.
  Churned(const Churned& other, CacheLayout layout, std::uint64_t seed,
          std::shared_ptr<CacheMemory<T>> pages)
      : shape(other.shape),
        engine(layout, other.shape, seed, std::move(pages)),
        evictor(other.evictor),
        shadow(other.shadow) {
    engine.copy_rows_of(other.engine);
  }

  void require_agreement(TestResources& res, std::int64_t pages_held_elsewhere = 0) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      REQUIRE(evictor.rows(h) == engine.rows(h));
      REQUIRE(evictor.rows(h) + evictor.dropped(h) == evictor.next_position());
      const auto& held = engine.held(h);
      REQUIRE(std::adjacent_find(held.begin(), held.end(), std::greater_equal<>()) == held.end());
      REQUIRE((held.empty() || held.back() < evictor.next_position()));
    }
    REQUIRE(engine.differences(pages_held_elsewhere) == 0);
    REQUIRE(shadow.differences(res, evictor, engine) == 0);
  }
};

// A step of a sequence: `tokens` rows and as many drafts beside them, which are not accepted.
struct ChurnStep {
  std::int64_t tokens = 1;
  std::int64_t drafts = 0;
  bool copies = false;  // ragged: the kept rows are copied to other memory
};

template <class T, class P, class A>
bool churn_step(TestResources& res, Churned<T, P>& it, kvevict::Selection& kept,
                const ChurnStep& step, const kvevict::Evidence<>& given, const A& allocator) {
  const std::int64_t incoming = step.tokens + step.drafts;
  const kvevict::KvView<T> cache = it.engine.view();
  bool evicted = false;
  if (step.copies) {
    evicted = it.evictor.select(res, kept, cache, incoming, given, allocator);
    if (evicted) {
      kvevict::compact_into(res, kept, kvevict::KvView<const T>(cache), it.engine.copies(kept));
      it.evictor.commit(res, kept);
      it.engine.keep_copies(kept);
    }
  } else {
    evicted = it.evictor.make_room(res, kept, cache, incoming, given, allocator);
    if (evicted) it.engine.keep(kept);
  }
  if (evicted) it.shadow.keep(kept);
  const std::int64_t next = it.evictor.next_position();
  it.engine.append(next, incoming);
  if (step.drafts > 0) it.engine.take_back(step.drafts);
  it.evictor.observe(res, it.engine.view(), step.tokens,
                     it.engine.queries(next, step.tokens).view());
  it.shadow.observe(it.engine, next, step.tokens);
  return evicted;
}

// Steps of all kinds of one sequence; returns how many were made, evictions counted again.
template <class T, class P>
std::int64_t churn(const P& policy, CacheLayout layout, const EngineShape& shape,
                   std::uint64_t seed, std::int64_t steps) {
  const Random random(seed);
  std::uint64_t next = 0;
  const IdentityProjection projection(shape);
  const kvevict::GlobalBudget global{.floor = 2, .allow_incomparable = true};
  TestResources res({.threads = 1});
  kvevict::Selection kept;
  kvevict::DecodeSchedule schedule = random_schedule(shape, random, next);
  kvevict::DecodeEvidenceOptions memory = short_memory();
  memory.memory = static_cast<kvevict::QueryMemory>(random.integer(next++, 3));
  Churned<T, P> it(policy, layout, shape, schedule, memory, seed,
                   Engine<T>::memory_for(layout, shape, 1));
  const auto step_of = [&](Churned<T, P>& of, const ChurnStep& step) {
    return schedule.ragged()
               ? churn_step(res, of, kept, step, projection.evidence(), global)
               : churn_step(res, of, kept, step, projection.evidence(), kvevict::UniformBudget{});
  };
  std::int64_t operations = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    INFO(policy.name() << " layout " << static_cast<int>(layout) << " seed " << seed << " step "
                       << step);
    const std::int64_t action = random.integer(next++, 64);
    ++operations;
    if (action == 0) {  // a new sequence
      it.engine.reset();
      it.evictor.reset();
      it.shadow.reset();
    } else if (action == 1) {  // moved to another object, with another schedule
      const std::vector<std::byte> blob = it.evictor.save(res);
      schedule = random_schedule(shape, random, next);
      kvevict::DecodeEvictor<P> other(policy, shape.decode(), schedule, memory);
      other.restore(res, blob);
      it.evictor = std::move(other);
    } else if (action == 2) {  // too many rows, or none that were announced: nothing changes
      REQUIRE_THROWS_AS(it.evictor.make_room(res, kept, it.engine.view(), schedule.row_limit + 1),
                        kvevict::Error);
      REQUIRE_THROWS_AS(it.evictor.observe(res, it.engine.view(), 1), kvevict::Error);
    } else if (action == 3) {  // a copy goes the same way, and leaves no trace
      Churned<T, P> copy(it, layout, seed, Engine<T>::memory_for(layout, shape, 1));
      for (int n = 0; n < 3; ++n, ++operations) {
        step_of(copy, {});
        it.require_agreement(res);
      }
      for (int n = 0; n < 3; ++n, ++operations) step_of(it, {});
      copy.require_agreement(res);
      REQUIRE(copy.evictor.save(res) == it.evictor.save(res));
    } else {
      ChurnStep what;
      if (action < 6) {
        what = {1 + random.integer(next++, 3), 1 + random.integer(next++, 3)};
      } else if (action < 18) {
        what.tokens = random.integer(next++, 9);
      }
      what.copies = layout == CacheLayout::ragged && random.integer(next++, 2) == 0;
      operations += step_of(it, what) ? 1 : 0;
      REQUIRE(it.engine.longest() <= schedule.most_rows());
      REQUIRE(it.engine.total() <= shape.heads * schedule.row_limit);
    }
    it.require_agreement(res);
  }
  return operations;
}

}  // namespace kvevict_test
