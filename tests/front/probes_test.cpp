// SPDX-License-Identifier: Apache-2.0
#include "kvevict/probes.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/query_moments.hpp"
#include "ops/attention_case.hpp"
#include "reference/rope.hpp"
#include "support/backend.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using kvevict::FutureProbesOptions;
using kvevict::plan_future_probes;
using kvevict::ProbePlan;
using kvevict::Rope;

TEST_CASE("a plan draws content from the context and positions from the future",
          "[front][probes]") {
  for (const std::int64_t queries : {5, 40, 300, 5000}) {
    for (const std::int64_t last : {0, 3, 128}) {
      for (const std::int64_t sampled : {0, 1, 64}) {
        const FutureProbesOptions options{.next_position = 7000,
                                          .last = last,
                                          .sampled = sampled,
                                          .future = 256,
                                          .skip_first = 4,
                                          .seed = 3};
        const ProbePlan plan = plan_future_probes(queries, options);
        const std::int64_t moved = std::min(last, queries - 4);
        INFO(queries << " queries, last " << last << ", sampled " << sampled);
        REQUIRE(plan.rows.size() == static_cast<std::size_t>(moved + sampled));
        REQUIRE(plan.positions.size() == plan.rows.size());
        REQUIRE(std::is_sorted(plan.positions.begin(), plan.positions.end()));
        std::set<std::pair<std::int32_t, std::int32_t>> pairs;
        for (std::size_t i = 0; i < plan.rows.size(); ++i) {
          // Never a sink, never beyond the context; positions ahead.
          REQUIRE(plan.rows[i] >= 4);
          REQUIRE(plan.rows[i] < queries);
          REQUIRE(plan.positions[i] >= 7000);
          REQUIRE(plan.positions[i] < 7256);
          pairs.insert({plan.positions[i], plan.rows[i]});
        }
        // The last queries follow the context in their order.
        for (std::int64_t i = 0; i < moved; ++i) {
          REQUIRE(pairs.count({static_cast<std::int32_t>(7000 + i),
                               static_cast<std::int32_t>(queries - moved + i)}) == 1);
        }
      }
    }
  }
}

TEST_CASE("a plan is the seed's", "[front][probes]") {
  const FutureProbesOptions options{.next_position = 500};
  FutureProbesOptions other = options;
  other.seed = 1;
  const ProbePlan one = plan_future_probes(500, options);
  const ProbePlan again = plan_future_probes(500, options);
  const ProbePlan two = plan_future_probes(500, other);
  REQUIRE(one.rows == again.rows);
  REQUIRE(one.positions == again.positions);
  REQUIRE(one.rows != two.rows);
}

TEST_CASE("samples reach all of the context and all of the future", "[front][probes]") {
  const ProbePlan plan = plan_future_probes(
      1000, {.next_position = 1000, .last = 0, .sampled = 4000, .future = 100, .skip_first = 0});
  std::vector<int> rows(10, 0);
  std::vector<int> positions(10, 0);
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    ++rows[static_cast<std::size_t>(plan.rows[i] / 100)];
    ++positions[static_cast<std::size_t>((plan.positions[i] - 1000) / 10)];
  }
  // 400 expected in each tenth, with a deviation of 19.
  for (std::size_t tenth = 0; tenth < 10; ++tenth) {
    REQUIRE(std::abs(rows[tenth] - 400) < 100);
    REQUIRE(std::abs(positions[tenth] - 400) < 100);
  }
}

TEST_CASE("probes are the planned queries, rotated", "[front][probes]") {
  constexpr std::int64_t dim = 12;
  const QueriesCase<kvevict::half> queries(4, 60, dim, 3);
  const std::vector<double> table = {1.0, 0.25, 0.03};
  struct Case {
    Rope rope;
    reference::Rope same;
  };
  const Case cases[] = {
      {{.theta = 1e4}, {reference::rope_frequencies(1e4, 12), reference::Pairing::half, 1}},
      {{.theta = 1e5, .pairing = kvevict::RopePairing::adjacent, .rotary_dim = 8},
       {reference::rope_frequencies(1e5, 8), reference::Pairing::adjacent, 1}},
      {{.rotary_dim = 6, .frequencies = table, .attention_factor = 1.3},
       {table, reference::Pairing::half, 1.3}}};
  for (const Case& c : cases) {
    const FutureProbesOptions options{
        .next_position = 4000, .last = 10, .sampled = 20, .future = 100, .seed = 5};
    const ProbePlan plan = plan_future_probes(60, options);
    const reference::Heads want = reference::future_probes(
        queries.exact, reference::Rows(plan.rows.begin(), plan.rows.end()),
        reference::Positions(plan.positions.begin(), plan.positions.end()), c.same);
    for (const int threads : {1, 3}) {
      TestResources res({.threads = threads});
      kvevict::Probes probes = future_probes(res, queries.view(), c.rope, options);
      REQUIRE(probes.count() == 30);
      Comparison comparison;
      for (std::int64_t q = 0; q < 4; ++q) {
        for (std::int64_t i = 0; i < 30; ++i) {
          for (std::int64_t d = 0; d < dim; ++d) {
            // A difference of two products in double, stored once.
            add(comparison, static_cast<double>(probes.queries()(q, i, d)),
                want[static_cast<std::size_t>(q)](static_cast<std::size_t>(i),
                                                  static_cast<std::size_t>(d)),
                {0x1p-23, 1e-9});
          }
        }
      }
      INFO(comparison.describe());
      REQUIRE(comparison.within());

      const kvevict::ProbeQueries<> view = probes.view();
      REQUIRE(view.mask == kvevict::ProbeMask::none);
      REQUIRE(view.queries.count() == 30);
      REQUIRE(view.queries.row(3, 29) == &probes.queries()(3, 29, 0));
      REQUIRE(view.positions.at(0, 7) == plan.positions[7]);
    }
  }
}

TEST_CASE("position zero changes nothing", "[front][probes]") {
  const QueriesCase<float> queries(2, 6, 8, 4);
  TestResources res({.threads = 1});
  kvevict::Probes probes = rotate_probes(res, queries.view(), Rope{}, ProbePlan{{5, 2}, {0, 0}});
  for (std::int64_t d = 0; d < 8; ++d) {
    REQUIRE(probes.queries()(1, 0, d) == queries.data[static_cast<std::size_t>((6 + 5) * 8 + d)]);
    REQUIRE(probes.queries()(0, 1, d) == queries.data[static_cast<std::size_t>(2 * 8 + d)]);
  }
}

TEST_CASE("plans refuse what they cannot use", "[front][probes]") {
  const auto problem = [](std::int64_t queries, const FutureProbesOptions& options) {
    return refused([&] { plan_future_probes(queries, options); });
  };
  REQUIRE(problem(100, {}) == "next_position is -1, must be given and >= 0");
  REQUIRE(problem(100, {.next_position = 100, .last = -1}) == "last is -1, must be >= 0");
  REQUIRE(problem(100, {.next_position = 100, .sampled = -1}) == "sampled is -1, must be >= 0");
  REQUIRE(problem(100, {.next_position = 100, .future = 0}) == "future is 0, must be >= 1");
  REQUIRE(problem(100, {.next_position = 100, .skip_first = -1}) ==
          "skip_first is -1, must be >= 0");
  REQUIRE(problem(4, {.next_position = 100}) == "queries.count is 4, must be above skip_first, 4");
  REQUIRE(problem(100, {.next_position = 2147483647}) ==
          "next_position is 2147483647, must be at most 2^31 - 1 with the probes behind it");
  const QueriesCase<float> queries(1, 6, 8, 4);
  TestResources res({.threads = 1});
  REQUIRE(refused([&] {
            rotate_probes(res, queries.view(), Rope{}, ProbePlan{{6}, {0}});
          }) == "plan.rows is 6, must be in [0, queries.count), count = 6");
  REQUIRE(refused([&] {
            rotate_probes(res, queries.view(), Rope{}, ProbePlan{{-1}, {0}});
          }) == "plan.rows is -1, must be in [0, queries.count), count = 6");
  REQUIRE(refused([&] {
            rotate_probes(res, queries.view(), Rope{}, ProbePlan{{1, 2}, {0}});
          }) == "plan.rows.size is 2, must be equal to plan.positions.size, 1");
  REQUIRE(refused([&] {
            rotate_probes(res, queries.view(), Rope{.rotary_dim = 3}, ProbePlan{{1}, {0}});
          }) == "rope.rotary_dim is 3, must be even");
}
