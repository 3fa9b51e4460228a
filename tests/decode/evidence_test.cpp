// SPDX-License-Identifier: Apache-2.0
// What is collected step by step is what a caller would have computed from the whole history.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decode/engine.hpp"

namespace evidence_test {

using namespace kvevict_test;

using kvevict::DecodeEvidenceOptions;
using kvevict::Evidence;
using kvevict::EvidenceKind;
using kvevict::QueryMemory;
using kvevict::Selection;

namespace {

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 64};

// The evidence of one eviction from all queries so far, by the fronts for one-shot eviction.
struct History {
  std::optional<kvevict::QueryStats> stats;
  std::optional<kvevict::Probes> probes;

  Evidence<> evidence(TestResources& res, const TokenQueries& all,
                      const DecodeEvidenceOptions& options, kvevict::Covariance covariance) {
    const std::int64_t seen = all.tokens;
    Evidence<> evidence;
    kvevict::QueriesView<> pre = all.pre();
    std::int64_t skip = std::min(options.skip_first, seen);
    if (options.memory == QueryMemory::recent) {
      const std::int64_t count = std::min(options.recent_queries, seen - skip);
      pre = pre.last(count);
      skip = 0;
    }
    stats.emplace(kvevict::estimate_query_stats(res, pre, options.rope,
                                                {.next_position = seen,
                                                 .future = options.future,
                                                 .skip_first = skip,
                                                 .covariance = covariance}));
    evidence.query_stats = stats->view();
    const std::int64_t drawn = std::min(options.probe_queries, seen);
    probes.emplace(kvevict::future_probes(
        res, all.pre().last(drawn), options.rope,
        {.next_position = seen,
         .last = options.last_probes,
         .sampled = options.sampled_probes,
         .future = options.probe_future,
         .skip_first = std::max<std::int64_t>(options.skip_first - (seen - drawn), 0),
         .seed = options.seed}));
    evidence.probes = probes->view();
    const std::int64_t window = std::min(options.window, seen);
    evidence.query_window = kvevict::QueryWindow<>{
        all.post().last(window),
        kvevict::QueryPositions<>::consecutive(static_cast<std::int32_t>(seen - window))};
    return evidence;
  }
};

kvevict::Covariance covariance_of(const TestPolicy& policy) {
  if (policy.needs().contains(EvidenceKind::query_covariance_full)) {
    return kvevict::Covariance::full;
  }
  return policy.needs().contains(EvidenceKind::query_covariance_diagonal)
             ? kvevict::Covariance::diagonal
             : kvevict::Covariance::none;
}

}  // namespace

TEST_CASE("evidence of a history in steps is that of the history", "[decode]") {
  const IdentityProjection projection(shape);
  for (const QueryMemory memory : {QueryMemory::all, QueryMemory::recent}) {
    DecodeEvidenceOptions options = short_memory();
    options.memory = memory;
    options.rope = {.theta = 50.0};
    for (const TestPolicy& policy : decode_policies()) {
      // Mass depends on what was evicted before: golden runs and H2O by hand tell.
      if (policy.needs().contains(EvidenceKind::attention_mass)) continue;
      INFO(policy.name() << " " << static_cast<int>(memory));
      Evictor evictor(policy, shape.decode(), {.row_limit = 24, .slack = 3, .protect = unprotected},
                      options);
      Engine<float> engine(CacheLayout::hnd, shape, 60);
      TestResources res({.threads = 1});
      Selection kept;
      Selection want;
      for (int step = 0; step < 80; ++step) {
        const std::int64_t tokens = step % 9 == 0 ? 4 : 1;
        const std::int64_t seen = evictor.next_position();
        const bool evicts = evictor.select(res, kept, engine.view(), tokens, projection.evidence());
        if (evicts) {
          // The same eviction, with evidence made at once.
          History history;
          const TokenQueries all = engine.queries(0, seen);
          Evidence<> evidence = history.evidence(res, all, options, covariance_of(policy));
          evidence.output_projection = projection.evidence().output_projection;
          kvevict::evict_into(res, want, policy, kvevict::KvView<const float>(engine.view()),
                              evidence, kvevict::Budget::rows(kept.count(0)));
          REQUIRE(kept == want);
        }
        REQUIRE(decode_step(res, evictor, engine, kept, tokens, projection.evidence()) == evicts);
      }
    }
  }
}

TEST_CASE("queries are asked for only where they are needed", "[decode]") {
  const auto asks = [](const char* name, const DecodeEvidenceOptions& options = {}) {
    const Evictor evictor(TestPolicy::named(name), shape.decode(),
                          {.row_limit = 8, .protect = unprotected}, options);
    return std::string(evictor.needs_pre_rope() ? "pre " : "") +
           (evictor.needs_post_rope() ? "post" : "");
  };
  CHECK(asks("KNorm") == "");
  CHECK(asks("KeyDiff") == "");
  CHECK(asks("StreamingLLM") == "");
  CHECK(asks("SnapKV") == "post");
  CHECK(asks("H2O") == "post");
  CHECK(asks("ExpectedAttention") == "pre ");
  CHECK(asks("CapKV") == "pre ");
  CHECK(asks("Jacap") == "pre ");
  CHECK(asks("Jacap", {.collect = kvevict::EvidenceSet{}}) == "");
  CHECK(asks("KNorm", {.collect = kvevict::EvidenceSet{EvidenceKind::query_window}}) == "post");
}

TEST_CASE("given evidence has precedence", "[decode]") {
  TestResources res({.threads = 1});
  Selection kept;
  TestPolicy policy = TestPolicy::named("CapKV");
  policy.set("preset=reference");
  // All keys alike but one: the head keeps what the given statistics point at.
  DecodeEvidenceOptions options = short_memory();
  Evictor evictor(policy, shape.decode(), {.row_limit = 10, .protect = unprotected}, options);
  Engine<float> engine(CacheLayout::hnd, shape, 61);
  for (int step = 0; step < 10; ++step) decode_step(res, evictor, engine, kept, 1);
  kvevict::QueryStats stats(res, shape.heads * shape.group, shape.dim, kvevict::Covariance::none);
  for (std::int64_t q = 0; q < stats.heads(); ++q) {
    for (std::int64_t c = 0; c < shape.dim; ++c) stats.mean(q)[c] = static_cast<float>(c) - 7.0f;
  }
  Evidence<> given;
  given.query_stats = stats.view();
  REQUIRE(evictor.select(res, kept, engine.view(), 4, given));
  Selection want;
  kvevict::evict_into(res, want, policy, kvevict::KvView<const float>(engine.view()), given,
                      kvevict::Budget::rows(6));
  CHECK(kept == want);
  Selection own;
  REQUIRE(evictor.select(res, own, engine.view(), 4));
  CHECK_FALSE(own == want);
}

TEST_CASE("a policy that may choose and is given nothing says so before any work", "[decode]") {
  TestResources res({.threads = 1});
  Selection kept;
  Evictor evictor(TestPolicy::named("Jacap"), shape.decode(),
                  {.row_limit = 8, .protect = unprotected}, {.collect = kvevict::EvidenceSet{}});
  Engine<float> engine(CacheLayout::hnd, shape, 62);
  for (int step = 0; step < 8; ++step) decode_step(res, evictor, engine, kept, 1);
  CHECK(refused([&] { evictor.make_room(res, kept, engine.view(), 1); }) ==
        "evidence.probes is missing, must be given for Jacap, or evidence.query_stats instead");
  CHECK(engine.differences() == 0);
  CHECK(evictor.rows(0) == 8);
}

}  // namespace evidence_test
