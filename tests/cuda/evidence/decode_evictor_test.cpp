// SPDX-License-Identifier: Apache-2.0
// A DecodeEvictor, its query rings and running statistics in device memory, step by step beside
// those on the host; and blobs that go from one to the other.
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "cuda/evidence/device_copy.hpp"
#include "kvevict/cuda.cuh"
#include "kvevict/decode_evictor.hpp"
#include "kvevict/kvevict.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace decode_evictor_test {

using namespace kvevict_test;
using kvevict::Covariance;
using kvevict::CpuResources;
using kvevict::CudaResources;
using kvevict::DecodeSchedule;
using kvevict::MemorySpace;
using kvevict::QueriesView;
using kvevict::RowLayout;

namespace {

constexpr MemorySpace device = MemorySpace::device;
constexpr std::int64_t heads = 2;
constexpr std::int64_t query_heads = 4;
constexpr std::int64_t dim = 8;
constexpr std::int64_t capacity = 32;

kvevict::DecodeEvidenceOptions short_memory(kvevict::QueryMemory memory) {
  kvevict::DecodeEvidenceOptions options;
  options.rope = {.theta = 50.0};
  options.memory = memory;
  options.recent_queries = 20;
  options.decay = 0.97;
  options.future = 8;
  options.skip_first = 1;
  options.window = 5;
  options.probe_queries = 12;
  options.last_probes = 4;
  options.sampled_probes = 3;
  options.probe_future = 6;
  return options;
}

// The same rows in host and in device memory, each compacted by its own evictor.
struct Caches {
  std::vector<float> keys = std::vector<float>(heads * capacity * dim);
  std::vector<float> values = std::vector<float>(heads * capacity * dim);
  std::vector<std::int32_t> positions = std::vector<std::int32_t>(heads * capacity);
  std::vector<std::int32_t*> table;
  std::vector<std::int64_t> offsets = {0, 0, 0};
  kvevict::Array<float, device> device_keys;
  kvevict::Array<float, device> device_values;
  kvevict::Array<std::int32_t, device> device_positions;
  kvevict::Array<std::int32_t*, device> device_table;
  kvevict::Array<std::int64_t, device> device_offsets;

  explicit Caches(CudaResources& res)
      : device_keys(on_device(res, keys)),
        device_values(on_device(res, values)),
        device_positions(on_device(res, positions)) {
    std::vector<std::int32_t*> there;
    for (std::int64_t h = 0; h < heads; ++h) {
      table.push_back(positions.data() + h * capacity);
      there.push_back(device_positions.data() + h * capacity);
    }
    device_table = on_device(res, there);
  }

  // Views of rows[h] rows in each head.
  void set_rows(CudaResources& res, const std::vector<std::int64_t>& rows) {
    offsets = {0, rows[0], rows[0] + rows[1]};
    device_offsets = on_device(res, offsets);
  }
  kvevict::KvView<float> view() {
    return kvevict::KvView<float>::hnd(keys.data(), values.data(), heads, capacity, dim)
        .with_layout(RowLayout<>::ragged(offsets.data(), heads),
                     kvevict::MutablePositions<>::per_head(table.data()));
  }
  kvevict::KvView<float, device> device_view() {
    return kvevict::KvView<float, device>::hnd(device_keys.data(), device_values.data(), heads,
                                               capacity, dim)
        .with_layout(RowLayout<device>::ragged(device_offsets.data(), offsets.data(), heads),
                     kvevict::MutablePositions<device>::per_head(device_table.data()));
  }

  void append(CudaResources& res, std::int64_t head, std::int64_t row, std::int64_t position) {
    const auto seed = static_cast<std::uint64_t>(position * heads + head);
    const std::vector<float> key = random_values(Shape::normal, dim, 2 * seed);
    const std::vector<float> value = random_values(Shape::normal, dim, 2 * seed + 1);
    const std::int64_t at = head * capacity + row;
    const auto stored = static_cast<std::int32_t>(position);
    std::copy(key.begin(), key.end(), keys.begin() + at * dim);
    std::copy(value.begin(), value.end(), values.begin() + at * dim);
    positions[static_cast<std::size_t>(at)] = stored;
    kvevict::cuda::upload(res.stream(), key.data(), dim, device_keys.data() + at * dim);
    kvevict::cuda::upload(res.stream(), value.data(), dim, device_values.data() + at * dim);
    kvevict::cuda::upload(res.stream(), &stored, 1, device_positions.data() + at);
  }
};

// Two evictors, one cache each, in step; checks that they keep the same rows.
template <class Policy>
struct Twins {
  CpuResources cpu{{.threads = 1}};
  CudaResources res;
  kvevict::DecodeEvictor<Policy> host;
  kvevict::DecodeEvictor<Policy, device> there;
  Caches caches{res};
  kvevict::Selection kept;
  kvevict::CudaSelection kept_there;
  std::int64_t evictions = 0;

  Twins(const Policy& policy, const DecodeSchedule& schedule,
        const kvevict::DecodeEvidenceOptions& options)
      : host(policy, {heads, query_heads, dim}, schedule, options),
        there(policy, {heads, query_heads, dim}, schedule, options) {}

  std::vector<std::int64_t> rows(std::int64_t more) const {
    return {host.rows(0) + more, host.rows(1) + more};
  }

  template <class A>
  void step(std::int64_t tokens, const A& allocator) {
    caches.set_rows(res, rows(0));
    const bool evicted =
        there.make_room(res, kept_there, caches.device_view(), tokens, {}, allocator);
    REQUIRE(host.make_room(cpu, kept, caches.view(), tokens, {}, allocator) == evicted);
    if (evicted) {
      ++evictions;
      REQUIRE(kept_there.download(res.stream()) == kept);
    }
    const std::int64_t next = host.next_position();
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (std::int64_t h = 0; h < heads; ++h) caches.append(res, h, host.rows(h) + i, next + i);
    }
    caches.set_rows(res, rows(tokens));
    const std::vector<float> queries = random_values(Shape::normal, query_heads * tokens * dim,
                                                     static_cast<std::uint64_t>(1000 + next));
    const auto queries_there = on_device(res, queries);
    const auto view = QueriesView<>::packed(queries.data(), query_heads, tokens, dim);
    const auto view_there =
        QueriesView<device>::packed(queries_there.data(), query_heads, tokens, dim);
    host.observe(cpu, caches.view(), tokens, {view, view});
    there.observe(res, caches.device_view(), tokens, {view_there, view_there});
    REQUIRE(there.next_position() == host.next_position());
    REQUIRE(there.rows(1) == host.rows(1));
  }

  void check_rows() {
    const auto keys = on_host(res, caches.device_keys.data(), heads * capacity * dim);
    const auto positions = on_host(res, caches.device_positions.data(), heads * capacity);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < host.rows(h); ++i) {
        const auto at = static_cast<std::size_t>(h * capacity + i);
        REQUIRE(positions[at] == caches.positions[at]);
        for (std::size_t c = 0; c < dim; ++c) {
          REQUIRE(keys[at * dim + c] == caches.keys[at * dim + c]);
        }
      }
    }
  }

  template <class A>
  void run(const A& allocator) {
    for (int i = 0; i < 40; ++i) step(i % 11 == 0 ? 5 : 1, allocator);
    CHECK(evictions >= 5);
    check_rows();
    // A blob goes from one memory to the other, and the same blob back.
    const std::vector<std::byte> blob = there.save(res);
    host.restore(cpu, blob);
    CHECK(host.save(cpu) == blob);
    there.reset();
    there.restore(res, blob);
    CHECK(there.save(res) == blob);
    for (int i = 0; i < 12; ++i) step(1, allocator);
    check_rows();
    std::vector<std::byte> damaged = blob;
    damaged[blob.size() / 2] ^= std::byte{1};
    CHECK_THROWS_AS(there.restore(res, damaged), kvevict::Error);
  }
};

constexpr DecodeSchedule schedule{
    .row_limit = 20, .slack = 3, .protect = kvevict::Protect{.sinks = 2, .recent = 3}};

template <class Policy>
void run(const Policy& policy, kvevict::QueryMemory memory = kvevict::QueryMemory::all) {
  Twins<Policy>(policy, schedule, short_memory(memory)).run(kvevict::UniformBudget{});
}

}  // namespace

TEST_CASE("decoding on a device follows that on the host", "[cuda][evidence]") {
  SECTION("KNorm") { run(kvevict::KNorm{}); }
  SECTION("SnapKV") { run(kvevict::SnapKV{}); }
  SECTION("H2O") { run(kvevict::H2O{}); }
  SECTION("Jacap, probes") { run(kvevict::Jacap{}); }
  SECTION("ExpectedAttention") {
    run(kvevict::ExpectedAttention{}, kvevict::QueryMemory::all);
    run(kvevict::ExpectedAttention{}, kvevict::QueryMemory::recent);
    run(kvevict::ExpectedAttention{}, kvevict::QueryMemory::decay);
  }
  SECTION("ragged") {
    Twins<kvevict::H2O>({}, {.row_limit = 20, .slack = 3, .head_limit = capacity},
                        short_memory(kvevict::QueryMemory::all))
        .run(kvevict::GlobalBudget{.floor = 3, .allow_incomparable = true});
  }
}

TEST_CASE("a limit below what is protected on a device", "[cuda][evidence]") {
  Twins<kvevict::KNorm> twins(
      {}, {.row_limit = 12, .protect = kvevict::Protect{.sinks = 4, .recent = 6}},
      short_memory(kvevict::QueryMemory::all));
  for (int i = 0; i < 12; ++i) twins.step(1, kvevict::UniformBudget{});
  twins.caches.set_rows(twins.res, twins.rows(0));
  const std::vector<std::byte> before = twins.there.save(twins.res);
  try {
    twins.there.make_room(twins.res, twins.kept_there, twins.caches.device_view(), 3);
    FAIL("nothing was thrown");
  } catch (const kvevict::Error& error) {
    CHECK(error.kind() == kvevict::ErrorKind::budget);
    CHECK(std::string(error.what()).find("head 0 is 13") != std::string::npos);
  }
  CHECK(twins.there.save(twins.res) == before);
  twins.step(2, kvevict::UniformBudget{});
  twins.check_rows();
}

TEST_CASE("older queries weigh less on a device as on the host", "[cuda][evidence]") {
  constexpr std::int64_t all = 70;
  const std::vector<float> queries = random_values(Shape::normal, query_heads * all * dim, 5);
  for (const Covariance kind : {Covariance::none, Covariance::diagonal, Covariance::full}) {
    CudaResources res;
    CpuResources cpu({.threads = 1});
    const auto queries_there = on_device(res, queries);
    const kvevict::Rope rope{.theta = 50.0};
    kvevict::RunningQueryStats host(query_heads, dim, rope, kind, 0.9);
    kvevict::BasicRunningQueryStats<device> there(query_heads, dim, rope, kind, 0.9);
    std::int64_t first = 0;
    for (const std::int64_t end : {1, 2, 20, 37, 70}) {
      const std::int64_t count = end - first;
      host.observe(cpu, QueriesView<>::strided(queries.data() + first * dim, query_heads, count,
                                               dim, all * dim, dim));
      there.observe(res, QueriesView<device>::strided(queries_there.data() + first * dim,
                                                      query_heads, count, dim, all * dim, dim));
      first = end;
    }
    kvevict::QueryStats want = host.finish(cpu, {all, 8});
    auto got = there.finish(res, {all, 8});
    const Comparison means = compare(
        on_host(res, got.mean(0), query_heads * dim),
        std::vector<float>(want.mean(0), want.mean(0) + query_heads * dim), tolerance::float32_sum);
    INFO(means.describe());
    CHECK(means.within());
    const std::int64_t size = query_heads * want.second_size();
    const Comparison seconds =
        compare(on_host(res, got.second(0), size),
                std::vector<float>(want.second(0), want.second(0) + size), tolerance::float32_sum);
    INFO(seconds.describe());
    CHECK(seconds.within());
  }
}

}  // namespace decode_evictor_test
