// SPDX-License-Identifier: Apache-2.0
// Engines of all layouts whose cache lies in device memory, under a DecodeEvictor: random tokens,
// chunks, new sequences, blobs and refused calls against a plain list of what each head must hold,
// and the same rows as an evictor on the host keeps.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "cuda/evidence/device_copy.hpp"
#include "decode/cache_engine.hpp"
#include "kvevict/block_selection.hpp"
#include "kvevict/cuda.cuh"
#include "kvevict/kvevict.hpp"

using namespace kvevict_test;
using kvevict::CpuResources;
using kvevict::CudaResources;
using kvevict::DecodeSchedule;
using kvevict::GlobalBudget;
using kvevict::MemorySpace;
using kvevict::QueriesView;
using kvevict::Selection;

namespace {

constexpr MemorySpace device = MemorySpace::device;
constexpr EngineShape shape{.heads = 2, .group = 2, .dim = 4, .capacity = 48};

kvevict::DecodeEvidenceOptions short_memory() {
  kvevict::DecodeEvidenceOptions options;
  options.window = 5;
  return options;
}

// The memory of an engine in device memory. What the engine moves, appends and checks is its own
// memory, brought up to date by `download` and carried back by `upload`.
template <class T>
class DeviceMemory {
 public:
  DeviceMemory(CudaResources& res, Engine<T>& engine) : res_(res), engine_(engine) { upload(); }

  void upload() {
    keys_ = on_device(res_, engine_.keys());
    values_ = on_device(res_, engine_.values());
    positions_ = on_device(res_, engine_.positions());
    ids_ = on_device(res_, engine_.page_ids());
    offsets_ = on_device(res_, engine_.offsets());
    std::vector<T*> keys;
    std::vector<T*> values;
    std::vector<std::int32_t*> positions;
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      keys.push_back(keys_.data() + h * shape.capacity * shape.dim);
      values.push_back(values_.data() + h * shape.capacity * shape.dim);
      positions.push_back(positions_.data() + h * shape.capacity);
    }
    key_table_ = on_device(res_, keys);
    value_table_ = on_device(res_, values);
    position_table_ = on_device(res_, positions);
  }
  void download() {
    fetch(keys_, engine_.keys());
    fetch(values_, engine_.values());
    fetch(positions_, engine_.positions());
  }

  kvevict::KvView<T, device> view() {
    const std::vector<std::int64_t>& offsets = engine_.offsets();
    return engine_.template view_of<device>(
        {keys_.data(), values_.data(), key_table_.data(), value_table_.data(),
         position_table_.data(), ids_.data(),
         kvevict::RowLayout<device>::ragged(offsets_.data(), offsets.data(), shape.heads)});
  }

 private:
  template <class U>
  void fetch(const kvevict::Array<U, device>& from, std::vector<U>& to) {
    // The engine's tables point into its memory.
    const std::vector<U> copy = on_host(res_, from.data(), static_cast<std::int64_t>(to.size()));
    std::copy(copy.begin(), copy.end(), to.begin());
  }

  CudaResources& res_;
  Engine<T>& engine_;
  kvevict::Array<T, device> keys_;
  kvevict::Array<T, device> values_;
  kvevict::Array<std::int32_t, device> positions_;
  kvevict::Array<std::int32_t, device> ids_;
  kvevict::Array<std::int64_t, device> offsets_;
  kvevict::Array<T*, device> key_table_;
  kvevict::Array<T*, device> value_table_;
  kvevict::Array<std::int32_t*, device> position_table_;
};

// An engine on a device, its evictor, and an evictor on the host that is told the same.
template <class Policy, class T>
struct Decoding {
  CpuResources cpu{{.threads = 1}};
  CudaResources res;
  Engine<T> engine;
  DeviceMemory<T> memory;
  kvevict::DecodeEvictor<Policy> host;
  kvevict::DecodeEvictor<Policy, device> there;
  kvevict::CudaSelection kept;
  Selection expected;

  Decoding(CacheLayout layout, const DecodeSchedule& schedule, std::uint64_t seed)
      : engine(layout, shape, seed),
        memory(res, engine),
        host({}, shape.decode(), schedule, short_memory()),
        there({}, shape.decode(), schedule, short_memory()) {}

  template <class A>
  bool make_room(std::int64_t tokens, const A& allocator) {
    const bool evicted = there.make_room(res, kept, memory.view(), tokens, {}, allocator);
    REQUIRE(host.select(cpu, expected, engine.view(), tokens, {}, allocator) == evicted);
    if (!evicted) return false;
    host.commit(cpu, expected);
    REQUIRE(kept.download(res.stream()) == expected);
    memory.download();
    engine.keep(expected);
    return true;
  }

  void append(std::int64_t tokens) {
    const std::int64_t next = there.next_position();
    engine.append(next, tokens);
    memory.upload();
    const TokenQueries queries = engine.queries(next, tokens);
    const auto pre = on_device(res, queries.pre_rope);
    const auto post = on_device(res, queries.post_rope);
    const auto view = [&](const auto& array) {
      return QueriesView<device>::packed(array.data(), queries.heads, tokens, shape.dim);
    };
    there.observe(res, memory.view(), tokens, {view(pre), view(post)});
    host.observe(cpu, engine.view(), tokens, queries.view());
  }

  void check() {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      REQUIRE(there.rows(h) == engine.rows(h));
      REQUIRE(there.rows(h) + there.dropped(h) == there.next_position());
    }
    REQUIRE(engine.differences() == 0);
  }
};

// Steps of all kinds; returns how many evicted.
template <class Policy, class T>
int churn(CacheLayout layout, std::uint64_t seed, int steps) {
  const Random random(seed);
  std::uint64_t next = 0;
  const bool ragged = seed % 2 == 0;
  DecodeSchedule schedule{
      .row_limit = 22, .slack = 3, .protect = kvevict::Protect{.sinks = 1, .recent = 3}};
  if (ragged) schedule.head_limit = shape.capacity;
  const GlobalBudget global{.floor = 2, .allow_incomparable = true};
  Decoding<Policy, T> d(layout, schedule, seed);
  int evictions = 0;
  for (int step = 0; step < steps; ++step) {
    INFO("seed " << seed << " step " << step);
    const std::int64_t action = random.integer(next++, 64);
    if (action == 0) {  // a new sequence
      d.engine.reset();
      d.memory.upload();
      d.there.reset();
      d.host.reset();
    } else if (action == 1) {  // moved to other objects, from one memory to the other
      const std::vector<std::byte> blob = d.there.save(d.res);
      kvevict::DecodeEvictor<Policy, device> other({}, shape.decode(), schedule, short_memory());
      other.restore(d.res, blob);
      d.there = std::move(other);
      d.host.restore(d.cpu, blob);
    } else if (action == 2) {  // too many rows, or none that were announced: nothing changes
      REQUIRE_THROWS_AS(d.there.make_room(d.res, d.kept, d.memory.view(), schedule.row_limit + 1),
                        kvevict::Error);
      REQUIRE_THROWS_AS(d.there.observe(d.res, d.memory.view(), 1), kvevict::Error);
    } else {
      const std::int64_t tokens = action < 16 ? random.integer(next++, 9) : 1;
      evictions +=
          (ragged ? d.make_room(tokens, global) : d.make_room(tokens, kvevict::UniformBudget{}))
              ? 1
              : 0;
      d.append(tokens);
      REQUIRE(d.engine.total() <= shape.heads * schedule.row_limit);
    }
    d.check();
  }
  return evictions;
}

}  // namespace

TEST_CASE("engines in device memory, churned against a plain list of rows", "[cuda][evidence]") {
  constexpr int steps = 80;
  int evictions = 0;
  for (const CacheLayout layout : cache_layouts) {
    const auto seed = 10 * (1 + static_cast<std::uint64_t>(layout));
    for (const std::uint64_t ragged : {0, 1}) {
      evictions += churn<kvevict::KNorm, kvevict::half>(layout, seed + ragged, steps);
      evictions += churn<kvevict::H2O, float>(layout, seed + 2 + ragged, steps);
      evictions += churn<kvevict::SnapKV, kvevict::bfloat16>(layout, seed + 4 + ragged, steps);
    }
  }
  CHECK(evictions > 5 * 6 * 5);
}

TEST_CASE("whole pages are evicted while a sequence goes on, in device memory",
          "[cuda][evidence]") {
  // An engine that moves no row: scores and positions come to the host, pages are freed there, and
  // the rows of the kept ones are told to the evictor.
  for (const CacheLayout layout : {CacheLayout::paged, CacheLayout::paged_by_head}) {
    INFO("layout " << static_cast<int>(layout));
    Decoding<kvevict::H2O, float> d(layout, {.row_limit = 40}, 91);
    int evictions = 0;
    for (int step = 0; step < 120; ++step) {
      if (d.engine.longest() == 40) {
        REQUIRE(d.there.due(1));
        const auto view = kvevict::KvView<const float>(d.engine.view());
        const auto there = kvevict::KvView<const float, device>(d.memory.view());
        kvevict::Array<float, device> scores_there;
        scores_there.resize(d.res, view.layout().total());
        kvevict::score_rows(d.res, kvevict::KNorm{}, there, {},
                            kvevict::ScoreView<device>{scores_there.data(), there.layout()});
        std::vector<float> scores = on_host(d.res, scores_there.data(), view.layout().total());
        Selection blocks;
        kvevict::select_blocks(d.cpu, blocks, {scores.data(), view.layout()},
                               kvevict::Positions<>(view.positions()), d.engine.blocks(),
                               kvevict::Budget::rows(20), {.sinks = 1, .recent = 3});
        const Selection rows = kvevict::rows_of_blocks(blocks, view.layout(), d.engine.blocks());
        d.res.upload_selection(rows, d.kept);
        d.there.commit(d.res, d.kept);
        d.host.commit(d.cpu, rows);
        d.memory.download();
        d.engine.keep_blocks(blocks, rows);
        d.memory.upload();
        ++evictions;
        REQUIRE(d.engine.longest() <= 20);
        REQUIRE(d.engine.held(0).front() == 0);
      }
      d.append(1);
      d.check();
    }
    CHECK(evictions > 3);
    // What was collected for each row went with it: an eviction of rows agrees with the host's.
    while (d.engine.longest() < 40) d.append(1);
    REQUIRE(d.make_room(12, kvevict::UniformBudget{}));
    d.check();
  }
}

TEST_CASE("a selection made on the host is copied to the device", "[cuda][evidence]") {
  CudaResources res;
  kvevict::CudaSelection there;
  for (const auto& lists : std::vector<std::vector<std::vector<std::int32_t>>>{
           {{0, 3, 4}, {1}, {}}, {{2, 5}, {0, 7}}, {{}, {}}, {}}) {
    const Selection from = selection_of(lists);
    res.upload_selection(from, there);
    CHECK(there.download(res.stream()) == from);
  }
}
