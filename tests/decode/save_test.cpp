// SPDX-License-Identifier: Apache-2.0
// State that is saved and taken up elsewhere.
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decode/engine.hpp"

namespace save_test {

using namespace kvevict_test;

using kvevict::DecodeEvidenceOptions;
using kvevict::DecodeSchedule;
using kvevict::QueryMemory;
using kvevict::Selection;

namespace {

using Blob = std::vector<std::byte>;

constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 64};
const DecodeSchedule schedule{.row_limit = 20, .slack = 3, .protect = kvevict::Protect{.sinks = 1}};

Evictor make(const TestPolicy& policy, const DecodeEvidenceOptions& options = short_memory()) {
  return Evictor(policy, shape.decode(), schedule, options);
}

Blob running_blob(TestResources& res, const TestPolicy& policy) {
  Evictor evictor = make(policy);
  Engine<float> engine(CacheLayout::hnd, shape, 80);
  Selection kept;
  const IdentityProjection projection(shape);
  for (int step = 0; step < 50; ++step) {
    decode_step(res, evictor, engine, kept, 1, projection.evidence());
  }
  return evictor.save(res);
}

void sign_again(Blob& blob) {
  const std::uint32_t crc =
      kvevict::detail::crc32(std::span<const std::byte>(blob).first(blob.size() - 4));
  for (std::size_t i = 0; i < 4; ++i) {
    blob[blob.size() - 4 + i] = static_cast<std::byte>(crc >> (8 * i));
  }
}

}  // namespace

TEST_CASE("going on from a blob is going on, bit by bit", "[decode][save]") {
  const IdentityProjection projection(shape);
  TestResources res({.threads = 2});
  Selection kept;
  for (const QueryMemory memory : {QueryMemory::all, QueryMemory::recent, QueryMemory::decay}) {
    DecodeEvidenceOptions options = short_memory();
    options.memory = memory;
    for (const TestPolicy& policy : decode_policies()) {
      for (const int saved_at : {0, 1, 19, 47}) {
        INFO(policy.name() << " saved at " << saved_at);
        Evictor one = make(policy, options);
        Engine<float> engine(CacheLayout::hnd, shape, 81);
        // The other engine comes to the same rows by itself.
        Engine<float> moved(CacheLayout::per_head, shape, 81);
        Evictor replayed = make(policy, options);
        for (int step = 0; step < saved_at; ++step) {
          decode_step(res, one, engine, kept, 1, projection.evidence());
          decode_step(res, replayed, moved, kept, 1, projection.evidence());
        }
        Evictor other = make(policy, options);
        other.restore(res, one.save(res));
        REQUIRE(other.next_position() == saved_at);
        for (int step = 0; step < 40; ++step) {
          decode_step(res, one, engine, kept, 1, projection.evidence());
          decode_step(res, other, moved, kept, 1, projection.evidence());
          REQUIRE(one.rows(0) == other.rows(0));
          REQUIRE(engine.held(0) == moved.held(0));
          REQUIRE(engine.held(1) == moved.held(1));
        }
        REQUIRE(one.save(res) == other.save(res));
      }
    }
  }
}

TEST_CASE("H2O's mass goes through a blob of its own", "[decode][save]") {
  TestResources res({.threads = 1});
  for (const kvevict::H2O& policy : {kvevict::H2O{}, kvevict::H2O::observed_attention(),
                                     kvevict::H2O{.accumulation = kvevict::Accumulation::decay}}) {
    kvevict::H2O::State state(policy);
    Engine<float> engine(CacheLayout::hnd, shape, 82);
    engine.append(0, 9);
    const TokenQueries queries = engine.queries(0, 9);
    const kvevict::QueryWindow<> window{queries.post(), kvevict::QueryPositions<>::consecutive(0)};
    observe(res, state, kvevict::KvView<const float>(engine.view()), window);
    kvevict::H2O::State other(policy);
    other.restore(res, state.save(res));
    observe(res, state, kvevict::KvView<const float>(engine.view()), window);
    observe(res, other, kvevict::KvView<const float>(engine.view()), window);
    CHECK(other.save(res) == state.save(res));
    const auto mass = state.mass();
    const auto got = other.mass();
    REQUIRE(got.layout.total() == 18);
    CHECK(std::vector<float>(got.data, got.data + 18) ==
          std::vector<float>(mass.data, mass.data + 18));

    kvevict::H2O::State another(kvevict::H2O{.decay = 0.5});
    CHECK_THROWS_AS(another.restore(res, state.save(res)), kvevict::Error);
    CHECK(another.mass().layout.total() == 0);
    other.reset();
    kvevict::H2O::State empty(policy);
    empty.restore(res, other.save(res));
    CHECK(empty.mass().layout.heads() == 0);
  }
}

TEST_CASE("a state that is damaged anywhere is refused", "[decode][save]") {
  TestResources res({.threads = 1});
  for (const char* const name : {"H2O", "SnapKV", "ExpectedAttention", "Jacap"}) {
    INFO(name);
    const TestPolicy policy = TestPolicy::named(name);
    const Blob blob = running_blob(res, policy);
    Evictor evictor = make(policy);
    evictor.reset(5);
    const Blob before = evictor.save(res);
    std::size_t refusals = 0;
    for (std::size_t i = 0; i < blob.size(); ++i) {
      Blob damaged = blob;
      damaged[i] ^= static_cast<std::byte>(1 << (i % 8));
      try {
        evictor.restore(res, damaged);
      } catch (const kvevict::Error&) {
        ++refusals;
      }
      const Blob cut(blob.begin(), blob.begin() + static_cast<std::ptrdiff_t>(i));
      CHECK_THROWS_AS(evictor.restore(res, cut), kvevict::Error);
    }
    CHECK(refusals == blob.size());
    CHECK(evictor.save(res) == before);
  }
}

TEST_CASE("a state that lies under a right checksum does no harm", "[decode][save]") {
  TestResources res({.threads = 1});
  for (const char* const name : {"H2O", "SnapKV", "CapKV", "Jacap"}) {
    INFO(name);
    const TestPolicy policy = TestPolicy::named(name);
    const Blob blob = running_blob(res, policy);
    // Every byte of the numbers at the front, and some of the others.
    for (std::size_t i = 20; i + 4 < blob.size(); i += i < 400 ? 1 : 37) {
      for (const int value : {0, 1, 0x7f, 0xff}) {
        Blob forged = blob;
        forged[i] = static_cast<std::byte>(value);
        sign_again(forged);
        Evictor evictor = make(policy);
        try {
          evictor.restore(res, forged);
        } catch (const kvevict::Error&) {
          REQUIRE(evictor.next_position() == 0);
          continue;
        }
        for (std::int64_t h = 0; h < shape.heads; ++h) {
          REQUIRE(evictor.rows(h) >= 0);
          REQUIRE(evictor.dropped(h) >= 0);
        }
      }
    }
  }
}

TEST_CASE("states of other policies, shapes and evidence", "[decode][save]") {
  TestResources res({.threads = 1});
  const Blob blob = running_blob(res, TestPolicy::named("SnapKV"));
  const auto refuses = [&](Evictor evictor) {
    const std::string text = refused([&] { evictor.restore(res, blob); });
    CHECK(evictor.next_position() == 0);
    return text;
  };
  CHECK(refuses(make(TestPolicy::named("KNorm"))).substr(0, 18) == "policy is 'SnapKV ");
  TestPolicy other = TestPolicy::named("SnapKV");
  other.set("kernel=7");
  CHECK(refuses(make(other)).find("kernel=5") != std::string::npos);
  CHECK(refuses(Evictor(TestPolicy::named("SnapKV"), {1, 2, 4}, schedule, short_memory())) ==
        "kv_heads is 2, must be equal to 1");
  CHECK(refuses(Evictor(TestPolicy::named("SnapKV"), {2, 2, 4}, schedule, short_memory())) ==
        "query_heads is 4, must be equal to 2");
  CHECK(refuses(Evictor(TestPolicy::named("SnapKV"), {2, 4, 8}, schedule, short_memory())) ==
        "dim is 4, must be equal to 8");
  DecodeEvidenceOptions options = short_memory();
  options.window = 7;
  CHECK(refuses(make(TestPolicy::named("SnapKV"), options)) ==
        "query_ring.window is 6, must be equal to 7");
  options = short_memory();
  options.memory = QueryMemory::decay;
  CHECK(refuses(make(TestPolicy::named("SnapKV"), options)) ==
        "evidence.memory is 'all', must be 'decay'");
  options = short_memory();
  options.collect = kvevict::EvidenceSet{};
  CHECK(refuses(make(TestPolicy::named("SnapKV"), options)) ==
        "evidence.queries after RoPE is 1, must be equal to 0");
  kvevict::QueryRing ring(4, 4, 6);
  CHECK(refused([&] { ring.restore(res, blob); }) ==
        "blob.kind is 'DecodeEvictor', must be 'QueryRing'");

  // Policies that hold different ones are different, though all parameters agree.
  kvevict::DecodeEvictor<kvevict::ChunkWise<kvevict::KNorm>> by_norm({}, shape.decode(), schedule);
  kvevict::DecodeEvictor<kvevict::ChunkWise<kvevict::KeyDiff>> by_direction({}, shape.decode(),
                                                                            schedule);
  by_norm.reset(9);
  CHECK(refused([&] { by_direction.restore(res, by_norm.save(res)); }) ==
        "policy is 'ChunkWise(KNorm) chunk=20', must be 'ChunkWise(KeyDiff) chunk=20'");
  CHECK(by_direction.next_position() == 0);

  // A policy and one chosen at run time that holds it are the same.
  kvevict::DecodeEvictor<kvevict::SnapKV> typed(kvevict::SnapKV{}, shape.decode(), schedule,
                                                short_memory());
  typed.restore(res, blob);
  CHECK(typed.next_position() == 50);
  CHECK(typed.save(res) == blob);
  // Another limit is no other state.
  kvevict::DecodeEvictor<kvevict::SnapKV> wider(
      kvevict::SnapKV{}, shape.decode(), {.row_limit = 40, .protect = unprotected}, short_memory());
  wider.restore(res, blob);
  CHECK(wider.save(res) == blob);
}

}  // namespace save_test
