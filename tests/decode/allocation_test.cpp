// SPDX-License-Identifier: Apache-2.0
// Thousands of cycles: nothing is allocated, nothing grows, nothing slips.
#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "decode/engine.hpp"
#include "support/allocation_counter.hpp"

namespace allocation_test {

using namespace kvevict_test;

using kvevict::QueryMemory;
using kvevict::Selection;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 32};

// A queries object that was made once serves every step: only the calls of the library count.
template <class A>
std::int64_t allocations_of(const TestPolicy& policy, QueryMemory memory,
                            const kvevict::DecodeSchedule& schedule, const A& allocator,
                            int cycles) {
  kvevict::DecodeEvidenceOptions options = short_memory();
  options.memory = memory;
  const IdentityProjection projection(shape);
  const kvevict::Evidence<> given = projection.evidence();
  TestResources res({.threads = 2});
  Selection kept;
  Evictor evictor(policy, shape.decode(), schedule, options);
  Engine<float> engine(CacheLayout::per_head, shape, 90);
  const TokenQueries queries = engine.queries(0, 1);
  std::int64_t allocations = 0;
  std::int64_t evictions = 0;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    const auto before = engine.view();
    const AllocationScope making_room;
    const bool evicted = evictor.make_room(res, kept, before, 1, given, allocator);
    if (cycle > cycles / 4) allocations += making_room.count().allocations;
    if (evicted) engine.keep(kept);
    evictions += evicted ? 1 : 0;
    engine.append(evictor.next_position(), 1);
    const auto after = engine.view();
    const AllocationScope observing;
    evictor.observe(res, after, 1, queries.view());
    if (cycle > cycles / 4) allocations += observing.count().allocations;
    REQUIRE(evictor.rows(0) == engine.rows(0));
  }
  REQUIRE(evictor.next_position() == cycles);
  REQUIRE(evictions > cycles / 8);
  REQUIRE(engine.differences() == 0);
  return allocations;
}

}  // namespace

TEST_CASE("thousands of cycles allocate nothing", "[decode]") {
  for (const TestPolicy& policy : decode_policies()) {
    for (const QueryMemory memory : {QueryMemory::all, QueryMemory::recent, QueryMemory::decay}) {
      INFO(policy.name() << " memory " << static_cast<int>(memory));
      const int cycles = memory == QueryMemory::all ? 2000 : 400;
      CHECK(allocations_of(policy, memory,
                           {.row_limit = 20, .slack = 4, .protect = kvevict::Protect{.sinks = 2}},
                           kvevict::UniformBudget{}, cycles) == 0);
    }
    INFO(policy.name() << " ragged");
    CHECK(allocations_of(policy, QueryMemory::all,
                         {.row_limit = 20, .slack = 4, .head_limit = 32, .protect = unprotected},
                         kvevict::GlobalBudget{.allow_incomparable = true}, 400) == 0);
  }
}

}  // namespace allocation_test
