// SPDX-License-Identifier: Apache-2.0
// H2O's mass in device memory: heads that grow and are compacted unequally, step by step.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "cuda/emu/runtime.hpp"
#include "cuda/evidence/device_copy.hpp"
#include "kvevict/cuda.cuh"
#include "kvevict/kvevict.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace h2o_state_test {

using namespace kvevict_test;
using kvevict::Accumulation;
using kvevict::CpuResources;
using kvevict::CudaResources;
using kvevict::H2O;
using kvevict::KvView;
using kvevict::MemorySpace;
using kvevict::QueriesView;
using kvevict::RowLayout;

namespace {

constexpr MemorySpace device = MemorySpace::device;
constexpr std::int64_t dim = 8;

// What one step looks like: random keys of every row held, and queries behind all of them.
struct Step {
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> positions;
  std::vector<float> keys;
  std::vector<float> queries;
  std::int64_t query_count;
  std::int32_t first_query;

  Step(const std::vector<std::vector<std::int32_t>>& held, std::int64_t count, std::uint64_t seed)
      : query_count(count) {
    offsets.push_back(0);
    for (const auto& head : held) {
      positions.insert(positions.end(), head.begin(), head.end());
      offsets.push_back(static_cast<std::int64_t>(positions.size()));
    }
    keys = random_values(Shape::normal, offsets.back() * dim, seed);
    queries = random_values(Shape::normal, 2 * static_cast<std::int64_t>(held.size()) * count * dim,
                            seed + 1);
    first_query = positions.back() - static_cast<std::int32_t>(count) / 2;
  }
  std::int64_t heads() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
};

void observe(CpuResources& res, H2O::State& state, const Step& step) {
  const auto rows = kvevict::RowsView<const float>::packed(
      step.keys.data(), RowLayout<>::ragged(step.offsets.data(), step.heads()), dim, dim);
  state.observe(
      res, KvView<const float>(rows, rows, kvevict::Positions<>::packed(step.positions.data())),
      kvevict::QueryWindow<>{
          QueriesView<>::packed(step.queries.data(), 2 * step.heads(), step.query_count, dim),
          kvevict::QueryPositions<>::consecutive(step.first_query)});
}

// A step in device memory.
class DeviceStep {
 public:
  DeviceStep(CudaResources& res, const Step& step)
      : step_(step),
        offsets_(on_device(res, step.offsets)),
        positions_(on_device(res, step.positions)),
        keys_(on_device(res, step.keys)),
        queries_(on_device(res, step.queries)) {}

  void observe(CudaResources& res, H2O::BasicState<device>& state) const {
    const std::int64_t heads = step_.heads();
    const auto rows = kvevict::RowsView<const float, device>::packed(
        keys_.data(), RowLayout<device>::ragged(offsets_.data(), step_.offsets.data(), heads), dim,
        dim);
    state.observe(
        res,
        KvView<const float, device>(rows, rows,
                                    kvevict::Positions<device>::packed(positions_.data())),
        kvevict::QueryWindow<device>{
            QueriesView<device>::packed(queries_.data(), 2 * heads, step_.query_count, dim),
            kvevict::QueryPositions<device>::consecutive(step_.first_query)});
  }

 private:
  const Step& step_;
  kvevict::Array<std::int64_t, device> offsets_;
  kvevict::Array<std::int32_t, device> positions_;
  kvevict::Array<float, device> keys_;
  kvevict::Array<float, device> queries_;
};

void observe(CudaResources& res, H2O::BasicState<device>& state, const Step& step) {
  const DeviceStep there(res, step);
  there.observe(res, state);
  res.wait();  // the step's memory ends here
}

void check_same(CudaResources& res, const H2O::BasicState<device>& state, const H2O::State& want) {
  const auto got = state.mass();
  const auto mass = want.mass();
  REQUIRE(got.layout.host().heads() == mass.layout.heads());
  for (std::int64_t h = 0; h < mass.layout.heads(); ++h) {
    REQUIRE(got.layout.host().rows(h) == mass.layout.rows(h));
  }
  const Comparison comparison = compare(
      on_host(res, got.data, got.layout.total()),
      std::vector<float>(mass.data, mass.data + mass.layout.total()), tolerance::float32_sum);
  INFO(comparison.describe());
  REQUIRE(comparison.within());
}

}  // namespace

TEST_CASE("H2O's state on a device follows that on the host", "[cuda][evidence]") {
  for (const H2O policy :
       {H2O{}, H2O::observed_attention(), H2O{.accumulation = Accumulation::decay, .decay = 0.9}}) {
    INFO("accumulation " << static_cast<int>(policy.accumulation));
    CudaResources res;
    CpuResources cpu({.threads = 1});
    H2O::BasicState<device> state(policy);
    H2O::State want(policy);
    std::vector<std::vector<std::int32_t>> held(2);
    std::int32_t next = 0;
    for (std::uint64_t round = 0; round < 4; ++round) {
      // The second head gets no row in the second round.
      for (std::int32_t i = 0; i < 40; ++i, ++next) {
        held[0].push_back(next);
        if (round != 1) held[1].push_back(next);
      }
      const Step step(held, 7, 10 + round);
      observe(res, state, step);
      observe(cpu, want, step);
      check_same(res, state, want);

      kvevict::Selection kept;
      kvevict::CudaSelection kept_there;
      std::vector<std::int64_t> counts;
      std::vector<std::int32_t> indices;
      for (std::size_t h = 0; h < held.size(); ++h) {
        std::vector<std::int32_t> remaining;
        // Equal counts in the last round, unequal ones before.
        const std::size_t every = round == 3 ? held[h].size() / 5 : 2 + h;
        for (std::size_t i = 0; i < held[h].size() && (round < 3 || remaining.size() < 5);
             i += every) {
          remaining.push_back(held[h][i]);
          indices.push_back(static_cast<std::int32_t>(i));
        }
        held[h] = std::move(remaining);
        counts.push_back(static_cast<std::int64_t>(held[h].size()));
      }
      std::copy(indices.begin(), indices.end(), kept.reshape(counts));
      res.make_room(kept_there, counts);
      kvevict::cuda::upload(res.stream(), indices.data(), kept_there.total(),
                            kept_there.indices_data());
      state.compact(res, kept_there);
      want.compact(cpu, kept);
      check_same(res, state, want);
    }
    state.reset();
    REQUIRE(state.mass().layout.heads() == 0);
  }
}

TEST_CASE("H2O's state on a device refuses selections with too many rows", "[cuda][evidence]") {
  CudaResources res;
  H2O::BasicState<device> state{H2O{}};
  observe(res, state, Step({{0, 1, 2}, {0, 1, 2}}, 2, 1));
  kvevict::CudaSelection kept;
  const std::vector<std::int64_t> counts = {3, 4};
  res.make_room(kept, counts);
  CHECK_THROWS_AS(state.compact(res, kept), kvevict::Error);
  CHECK(state.mass().layout.total() == 6);
}

TEST_CASE("H2O's state on a device allocates nothing once its heads have stopped growing",
          "[cuda][evidence]") {
  CudaResources res;
  H2O::BasicState<device> state{H2O{}};
  std::vector<std::vector<std::int32_t>> held(2);
  for (std::int32_t next = 0; next < 20; ++next) {
    for (auto& head : held) head.push_back(next);
    const Step step(held, 1, static_cast<std::uint64_t>(next));
    const DeviceStep there(res, step);
    kvevict::CudaSelection kept;
    const std::vector<std::int64_t> counts(2, std::min<std::int64_t>(next + 1, 8));
    res.make_room(kept, counts);
    // The first row of each head goes.
    std::vector<std::int32_t> indices;
    for (auto& head : held) {
      const std::int64_t gone = static_cast<std::int64_t>(head.size()) - counts[0];
      for (std::int64_t i = 0; i < counts[0]; ++i) {
        indices.push_back(static_cast<std::int32_t>(gone + i));
      }
      head.erase(head.begin(), head.begin() + gone);
    }
    kvevict::cuda::upload(res.stream(), indices.data(), kept.total(), kept.indices_data());
    const std::uint64_t before = kvevict_emulated_allocations();
    there.observe(res, state);
    state.compact(res, kept);
    INFO("step " << next);
    if (next >= 12) CHECK(kvevict_emulated_allocations() == before);
    res.wait();
  }
}

}  // namespace h2o_state_test
