// SPDX-License-Identifier: Apache-2.0
// Statistics, probes and factors in device memory are those in host memory.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "cuda/evidence/device_copy.hpp"
#include "kvevict/core/layout_storage.hpp"
#include "kvevict/cuda.cuh"
#include "kvevict/kvevict.hpp"
#include "support/random.hpp"
#include "support/tolerance.hpp"

namespace evidence_test {

using namespace kvevict_test;
using kvevict::BasicRunningQueryStats;
using kvevict::Covariance;
using kvevict::CpuResources;
using kvevict::CudaResources;
using kvevict::MatrixBatchView;
using kvevict::MatrixView;
using kvevict::MemorySpace;
using kvevict::QueriesView;
using kvevict::Rope;
using kvevict::RowLayout;

namespace {

constexpr MemorySpace device = MemorySpace::device;
constexpr std::int64_t heads = 3;

// The same sums in double in another order, stored once in fp32; entries of a covariance cancel
// from terms of size one.
constexpr Tolerance stats_tolerance{0x1p-22, 1e-7};

std::vector<float> numbers(CudaResources& res, kvevict::BasicQueryStats<device>& stats) {
  std::vector<float> all = on_host(res, stats.mean(0), stats.heads() * stats.dim());
  const std::vector<float> second =
      on_host(res, stats.second(0), stats.heads() * stats.second_size());
  all.insert(all.end(), second.begin(), second.end());
  return all;
}

std::vector<float> numbers(kvevict::QueryStats& stats) {
  std::vector<float> all(stats.mean(0), stats.mean(0) + stats.heads() * stats.dim());
  all.insert(all.end(), stats.second(0), stats.second(0) + stats.heads() * stats.second_size());
  return all;
}

void check_same(const std::vector<float>& got, const std::vector<float>& want,
                Tolerance tolerance) {
  const Comparison comparison = compare(got, want, tolerance);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

}  // namespace

TEST_CASE("arrays and layouts in device memory", "[cuda][evidence]") {
  CudaResources res;
  std::vector<double> data(3000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<double>(i);
  auto array = on_device(res, data);
  array.resize(res, 5000);
  REQUIRE(array.size() == 5000);
  REQUIRE(on_host(res, array.data(), 3000) == data);
  const auto moved = std::move(array);
  REQUIRE(on_host(res, moved.data(), 3000) == data);

  kvevict::LayoutStorage<device> stored;
  REQUIRE(stored.view().heads() == 0);
  {
    const std::vector<std::int64_t> offsets = {0, 4, 4, 9};
    const auto there = on_device(res, offsets);
    stored.assign(res, RowLayout<device>::ragged(there.data(), offsets.data(), 3));
  }
  REQUIRE(on_host(res, stored.view().offsets(), 4) == std::vector<std::int64_t>{0, 4, 4, 9});
  REQUIRE(stored.view().host().rows(2) == 5);
  stored.assign(res, RowLayout<device>::uniform(2, 7));
  REQUIRE(stored.view().is_uniform());
  REQUIRE(stored.view().total() == 14);
}

TEST_CASE("statistics of future queries on a device", "[cuda][evidence]") {
  CudaResources res;
  CpuResources cpu({.threads = 1});
  const Rope ropes[] = {{.theta = 1e4},
                        {.pairing = kvevict::RopePairing::adjacent, .rotary_dim = 8}};
  // 2,500 queries of one head are cut into parts, 70 channels into tiles.
  for (const auto& [dim, count] : {std::pair{12, 300}, std::pair{70, 40}, std::pair{12, 2500}}) {
    const std::vector<float> data = random_values(Shape::normal, heads * count * dim, 3);
    const auto there = on_device(res, data);
    const auto queries = QueriesView<>::packed(data.data(), heads, count, dim);
    const auto on_gpu = QueriesView<device>::packed(there.data(), heads, count, dim);
    const auto second_head = QueriesView<device>::packed(there.data() + count * dim, 1, count, dim);
    for (const Rope& rope : ropes) {
      for (const Covariance kind : {Covariance::none, Covariance::diagonal, Covariance::full}) {
        INFO("dim " << dim << ", " << count << " queries, covariance " << static_cast<int>(kind));
        const kvevict::QueryStatsOptions options{
            .next_position = 3000, .future = 30, .covariance = kind};
        auto got = estimate_query_stats(res, on_gpu, rope, options);
        kvevict::QueryStats want = estimate_query_stats(cpu, queries, rope, options);
        const std::vector<float> all = numbers(res, got);
        check_same(all, numbers(want), stats_tolerance);
        // A head alone has bit by bit what it has among others.
        auto alone = estimate_query_stats(res, second_head, rope, options);
        REQUIRE(on_host(res, alone.mean(0), dim) == on_host(res, got.mean(1), dim));
        REQUIRE(on_host(res, alone.second(0), alone.second_size()) ==
                on_host(res, got.second(1), got.second_size()));
      }
    }
  }
}

TEST_CASE("statistics in chunks and merged on a device", "[cuda][evidence]") {
  constexpr std::int64_t dim = 12;
  constexpr std::int64_t count = 300;
  CudaResources res;
  CpuResources cpu({.threads = 1});
  const std::vector<float> data = random_values(Shape::normal, heads * count * dim, 5);
  const auto there = on_device(res, data);
  for (const Covariance kind : {Covariance::none, Covariance::diagonal, Covariance::full}) {
    INFO("covariance " << static_cast<int>(kind));
    BasicRunningQueryStats<device> chunked(heads, dim, Rope{}, kind);
    BasicRunningQueryStats<device> merged(heads, dim, Rope{}, kind);
    std::int64_t first = 0;
    for (const std::int64_t n : {1, 2, 0, 100, 197}) {
      const auto chunk =
          QueriesView<device>::strided(there.data() + first * dim, heads, n, dim, count * dim, dim);
      chunked.observe(res, chunk);
      BasicRunningQueryStats<device> part(heads, dim, Rope{}, kind);
      part.observe(res, chunk);
      merged.merge(res, part);
      first += n;
    }
    REQUIRE(first == count);
    kvevict::RunningQueryStats whole(heads, dim, Rope{}, kind);
    whole.observe(cpu, QueriesView<>::packed(data.data(), heads, count, dim));
    kvevict::QueryStats want = whole.finish(cpu, {500, 64});
    for (BasicRunningQueryStats<device>* each : {&chunked, &merged}) {
      auto got = each->finish(res, {500, 64});
      check_same(numbers(res, got), numbers(want), stats_tolerance);
    }
    chunked.reset();
    chunked.observe(res, QueriesView<device>::packed(there.data(), heads, count, dim));
    auto got = chunked.finish_unrotated(res);
    kvevict::QueryStats unrotated = whole.finish_unrotated(cpu);
    check_same(numbers(res, got), numbers(unrotated), stats_tolerance);
  }
}

TEST_CASE("probes on a device", "[cuda][evidence]") {
  constexpr std::int64_t dim = 10;
  constexpr std::int64_t count = 60;
  CudaResources res;
  CpuResources cpu({.threads = 1});
  const std::vector<float> data = random_values(Shape::normal, heads * count * dim, 6);
  const auto there = on_device(res, data);
  const Rope rope{.theta = 1e5, .rotary_dim = 6, .attention_factor = 1.3};
  const kvevict::FutureProbesOptions options{
      .next_position = 4000, .last = 10, .sampled = 20, .future = 100};
  auto got = future_probes(res, QueriesView<device>::packed(there.data(), heads, count, dim), rope,
                           options);
  kvevict::Probes want =
      future_probes(cpu, QueriesView<>::packed(data.data(), heads, count, dim), rope, options);
  REQUIRE(got.count() == 30);
  const auto queries = want.queries();
  check_same(on_host(res, got.queries().data, queries.size()),
             {queries.data, queries.data + queries.size()}, {0x1p-23, 1e-9});
}

TEST_CASE("factors of output projections on a device", "[cuda][evidence]") {
  CudaResources res;
  CpuResources cpu({.threads = 1});
  // 70 channels are two tiles, 1,100 hidden channels two parts.
  for (const auto& [dim, hidden] : {std::pair{7, 40}, std::pair{70, 90}, std::pair{5, 1100}}) {
    INFO("dim " << dim << ", hidden " << hidden);
    std::vector<float> w = random_values(Shape::normal, hidden * heads * dim, 7);
    const auto there = on_device(res, w);
    const auto w_o = MatrixView<const float, device>::packed(there.data(), hidden, heads * dim);
    kvevict::BasicProjectionFactors<device> got(heads, dim);
    kvevict::ProjectionFactors want(heads, dim);
    for (int layer = 0; layer < 2; ++layer) {
      got.add_layer(res, w_o);
      want.add_layer(cpu, MatrixView<const float>::packed(w.data(), hidden, heads * dim));
    }
    const auto factors = want.view().factors;
    check_same(on_host(res, got.view().factors.data, factors.size()),
               {factors.data, factors.data + factors.size()}, tolerance::float32_sum);

    w[static_cast<std::size_t>(3 * heads * dim + heads * dim - 1)] = std::nanf("");
    const auto bad = on_device(res, w);
    REQUIRE(refused(
                [&] {
                  got.add_layer(res, MatrixView<const float, device>::packed(bad.data(), hidden,
                                                                             heads * dim));
                },
                kvevict::ErrorKind::numerical) == "w_o of query head is 2, must be finite");
    REQUIRE(got.view().factors.shape[0] == 2 * heads);
  }
}

TEST_CASE("stacked factors that are not finite are counted on a device", "[cuda][evidence]") {
  constexpr std::int64_t dim = 6;
  constexpr auto size = static_cast<std::size_t>(dim * dim);
  CudaResources res;
  std::vector<float> factors = random_values(Shape::normal, 4 * dim * dim, 8);
  factors[3 * size + 1] = std::nanf("");
  const auto there = on_device(res, factors);
  auto out = on_device(res, std::vector<float>(2 * size));
  stack_factors(res, MatrixBatchView<const float, device>::packed(there.data(), 4, dim, dim),
                MatrixBatchView<float, device>::packed(out.data(), 2, dim, dim));
  const std::vector<float> got = on_host(res, out.data(), out.size());
  REQUIRE(res.report().failed_factorizations == 1);
  REQUIRE(std::all_of(got.begin(), got.begin() + size, [](float x) { return std::isfinite(x); }));
  REQUIRE(std::all_of(got.begin() + size, got.end(), [](float x) { return std::isnan(x); }));
}

}  // namespace evidence_test
