// SPDX-License-Identifier: Apache-2.0
// Random tokens, chunks, resets, blobs and refused calls against a plain list of what each head
// must hold: nothing is lost, duplicated or out of order, and counts, positions and what was
// collected always agree. KVEVICT_TEST_CHURN multiplies the number of steps.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "catch.hpp"
#include "decode/engine.hpp"

using namespace kvevict_test;

using kvevict::Budget;
using kvevict::DecodeSchedule;
using kvevict::GlobalBudget;
using kvevict::Selection;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 48};

int churn_factor() {
  const char* const text = std::getenv("KVEVICT_TEST_CHURN");
  return text == nullptr ? 1 : std::atoi(text);
}

DecodeSchedule random_schedule(const Random& random, std::uint64_t& next) {
  DecodeSchedule schedule;
  schedule.row_limit = 16 + random.integer(next++, 16);
  schedule.slack = random.integer(next++, 6);
  schedule.protect = {.sinks = random.integer(next++, 3), .recent = random.integer(next++, 5)};
  if (random.integer(next++, 2) == 0) schedule.head_limit = shape.capacity;
  if (random.integer(next++, 3) == 0) {
    schedule.interval = 1 + random.integer(next++, 12);
    const std::int64_t kind = random.integer(next++, 3);
    schedule.target = kind == 0   ? Budget::rows(1 + random.integer(next++, 14))
                      : kind == 1 ? Budget::evict_ratio(random.uniform(next++))
                                  : Budget::bytes(600 + random.integer(next++, 600));
  }
  return schedule;
}

// Steps of all kinds; returns how many were made.
template <class T>
std::int64_t churn(const TestPolicy& policy, CacheLayout layout, std::uint64_t seed,
                   std::int64_t steps) {
  const Random random(seed);
  std::uint64_t next = 0;
  const IdentityProjection projection(shape);
  const GlobalBudget global{.floor = 2, .allow_incomparable = true};
  TestResources res({.threads = 1});
  Selection kept;
  Engine<T> engine(layout, shape, seed);
  DecodeSchedule schedule = random_schedule(random, next);
  kvevict::DecodeEvidenceOptions memory = short_memory();
  memory.memory = static_cast<kvevict::QueryMemory>(random.integer(next++, 3));
  Evictor evictor(policy, shape.decode(), schedule, memory);
  std::int64_t evictions = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    INFO(policy.name() << " seed " << seed << " step " << step);
    const std::int64_t action = random.integer(next++, 64);
    if (action == 0) {  // a new sequence, sometimes with another schedule
      engine.reset();
      evictor.reset();
    } else if (action == 1) {  // moved to another object
      const std::vector<std::byte> blob = evictor.save(res);
      schedule = random_schedule(random, next);
      Evictor other(policy, shape.decode(), schedule, memory);
      other.restore(res, blob);
      evictor = std::move(other);
    } else if (action == 2) {  // too many rows, or none that were announced: nothing changes
      REQUIRE_THROWS_AS(evictor.make_room(res, kept, engine.view(), schedule.row_limit + 1),
                        kvevict::Error);
      REQUIRE_THROWS_AS(evictor.observe(res, engine.view(), 1), kvevict::Error);
    } else {
      const std::int64_t tokens = action < 16 ? random.integer(next++, 9) : 1;
      const auto step_with = [&](const auto& allocator) {
        return decode_step(res, evictor, engine, kept, tokens, projection.evidence(), allocator);
      };
      evictions +=
          (schedule.ragged() ? step_with(global) : step_with(kvevict::UniformBudget{})) ? 1 : 0;
      REQUIRE(engine.longest() <= schedule.most_rows());
      REQUIRE(engine.total() <= shape.heads * schedule.row_limit);
    }
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      REQUIRE(evictor.rows(h) == engine.rows(h));
      REQUIRE(evictor.rows(h) + evictor.dropped(h) == evictor.next_position());
      const auto& held = engine.held(h);
      REQUIRE(std::adjacent_find(held.begin(), held.end(), std::greater_equal<>()) == held.end());
      REQUIRE((held.empty() || held.back() < evictor.next_position()));
    }
    REQUIRE(engine.differences() == 0);
  }
  return steps + evictions;
}

}  // namespace

TEST_CASE("churn against a plain list of rows", "[decode][churn]") {
  const std::int64_t steps = 350 * churn_factor();
  std::int64_t operations = 0;
  std::uint64_t seed = 1;
  for (const TestPolicy& policy : decode_policies()) {
    for (const CacheLayout layout : cache_layouts) {
      operations += churn<float>(policy, layout, ++seed, steps);
      operations += churn<kvevict::half>(policy, layout, ++seed, steps);
      operations += churn<kvevict::bfloat16>(policy, layout, ++seed, steps);
    }
  }
  CHECK(operations > 100000 * churn_factor());
}
