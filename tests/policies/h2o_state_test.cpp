// SPDX-License-Identifier: Apache-2.0
// What H2O accumulates from call to call.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/running_mass.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

namespace h2o_state_test {

using namespace kvevict_test;
using kvevict::Accumulation;
using kvevict::H2O;
using kvevict::Selection;

namespace {

std::vector<std::size_t> range(std::size_t first, std::size_t last) {
  std::vector<std::size_t> rows(last - first);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

// The first `rows` rows of every head and the queries [first_query, rows), which stand at their own
// numbers.
reference::Inputs step(const reference::Inputs& whole, std::size_t rows, std::size_t first_query) {
  reference::Inputs inputs = whole;
  inputs.output_projection = {};
  for (std::size_t h = 0; h < inputs.keys.size(); ++h) {
    inputs = with_rows(inputs, h, range(0, rows));
  }
  for (reference::Matrix& head : inputs.queries) head = rows_of(head, range(first_query, rows));
  inputs.query_positions.clear();
  for (const std::size_t q : range(first_query, rows)) {
    inputs.query_positions.push_back(static_cast<std::int64_t>(q));
  }
  return inputs;
}

void observe_all(TestResources& res, H2O::State& state, const reference::Inputs& inputs) {
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  observe(res, state, cache.view(), *evidence.view().query_window);
}

std::vector<float> mass_of(H2O::State& state) {
  const kvevict::AttentionMass<> mass = state.mass();
  return {mass.data, mass.data + mass.layout.total()};
}

Selection selection(const std::vector<std::vector<std::int32_t>>& rows) {
  std::vector<std::int64_t> counts;
  std::vector<std::int32_t> all;
  for (const auto& head : rows) {
    counts.push_back(static_cast<std::int64_t>(head.size()));
    all.insert(all.end(), head.begin(), head.end());
  }
  Selection kept;
  std::copy(all.begin(), all.end(), kept.reshape(counts));
  return kept;
}

reference::Inputs context(std::size_t rows, std::size_t heads, std::uint64_t seed) {
  return reference::random_inputs(
      {.group = 2, .rows = std::vector<std::size_t>(heads, rows), .dim = 8, .queries = rows}, seed);
}

}  // namespace

TEST_CASE("H2O state: chunks add up to the whole", "[policies][h2o]") {
  const reference::Inputs whole = context(150, 2, 1);
  for (const H2O policy : {H2O{}, H2O{.accumulation = Accumulation::mean},
                           H2O{.accumulation = Accumulation::decay, .decay = 0.9},
                           H2O{.accumulation = Accumulation::max}}) {
    TestResources res({.threads = 1});
    H2O::State at_once(policy);
    observe_all(res, at_once, step(whole, 150, 0));
    H2O::State in_chunks(policy);
    std::size_t first = 0;
    for (const std::size_t end : {1u, 2u, 70u, 71u, 137u, 150u}) {
      observe_all(res, in_chunks, step(whole, end, first));
      first = end;
    }
    // The same weights, added up in another order.
    const Comparison comparison =
        compare(mass_of(in_chunks), mass_of(at_once), tolerance::float32_sum);
    INFO(static_cast<int>(policy.accumulation) << ": " << comparison.describe());
    CHECK(comparison.within());
  }
}

TEST_CASE("H2O state: a batch is its sequences one by one", "[policies][h2o]") {
  const reference::Inputs whole = context(40, 3, 2);
  TestResources res({.threads = 2});
  H2O::State together{H2O{}};
  observe_all(res, together, step(whole, 30, 0));
  observe_all(res, together, step(whole, 40, 30));
  std::vector<float> one_by_one;
  for (std::size_t h = 0; h < 3; ++h) {
    H2O::State alone{H2O{}};
    observe_all(res, alone, one_head(step(whole, 30, 0), h));
    observe_all(res, alone, one_head(step(whole, 40, 30), h));
    const std::vector<float> mass = mass_of(alone);
    one_by_one.insert(one_by_one.end(), mass.begin(), mass.end());
  }
  CHECK(mass_of(together) == one_by_one);
}

TEST_CASE("H2O state: compaction keeps the values of the kept rows", "[policies][h2o]") {
  TestResources res({.threads = 1});
  H2O::State state{H2O{}};
  observe_all(res, state, step(context(10, 2, 3), 10, 0));
  const std::vector<float> before = mass_of(state);
  state.compact(res, selection({{0, 3, 9}, {}}));
  CHECK(mass_of(state) == std::vector<float>{before[0], before[3], before[9]});
  CHECK(state.mass().layout.rows(1) == 0);
}

TEST_CASE("H2O state: new rows begin with what the step gives them", "[policies][h2o]") {
  const reference::Inputs whole = context(12, 1, 4);
  TestResources res({.threads = 1});
  H2O::State state{H2O{}};
  observe_all(res, state, step(whole, 10, 0));
  const std::vector<float> before = mass_of(state);
  H2O::State only_last{H2O{}};
  observe_all(res, only_last, step(whole, 12, 10));
  const std::vector<float> added = mass_of(only_last);
  observe_all(res, state, step(whole, 12, 10));
  const std::vector<float> after = mass_of(state);
  REQUIRE(after.size() == 12);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(after[i] == Approx((i < 10 ? before[i] : 0) + added[i]).epsilon(1e-6));
  }
}

TEST_CASE("H2O state: a shorter sequence after a longer one", "[policies][h2o]") {
  TestResources res({.threads = 1});
  const reference::Inputs shorter = step(context(6, 2, 5), 6, 0);
  H2O::State fresh{H2O{}};
  observe_all(res, fresh, shorter);
  H2O::State reused{H2O{}};
  observe_all(res, reused, step(context(20, 3, 6), 20, 0));
  reused.reset();
  CHECK(reused.mass().layout.total() == 0);
  observe_all(res, reused, shorter);
  CHECK(mass_of(reused) == mass_of(fresh));
}

TEST_CASE("H2O state: a refused call changes nothing", "[policies][h2o]") {
  TestResources res({.threads = 1});
  H2O::State state{H2O{}};
  const reference::Inputs whole = context(10, 2, 7);
  observe_all(res, state, step(whole, 10, 0));
  const std::vector<float> before = mass_of(state);
  const auto refuses = [&](const reference::Inputs& inputs, const std::string& argument) {
    try {
      observe_all(res, state, inputs);
      FAIL("accepted");
    } catch (const kvevict::Error& error) {
      CHECK(error.kind() == kvevict::ErrorKind::invalid_argument);
      CHECK(error.argument() == argument);
    }
    CHECK(mass_of(state) == before);
  };
  refuses(step(whole, 9, 0), "cache.rows");
  refuses(step(context(10, 3, 8), 10, 0), "cache.heads");
  reference::Inputs queries = step(whole, 10, 0);
  queries.queries.pop_back();
  refuses(queries, "query_window.heads");
  queries = step(whole, 10, 0);
  for (reference::Matrix& head : queries.queries) head = reference::Matrix(10, 5);
  refuses(queries, "queries.dim");

  for (const auto& rows : std::vector<std::vector<std::vector<std::int32_t>>>{
           {{0, 1}}, {{0, 10}, {}}, {{1, 0}, {}}, {{1, 1}, {}}, {{-1}, {}}}) {
    CHECK_THROWS_AS(state.compact(res, selection(rows)), kvevict::Error);
    CHECK(mass_of(state) == before);
  }
}

TEST_CASE("H2O state: bad parameters are refused at construction", "[policies][h2o]") {
  for (const double decay : {0.0, -1.0, 1.0001, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(H2O::State(H2O{.decay = decay}), kvevict::Error);
  }
}

TEST_CASE("H2O state: a thousand steps of append and evict keep count", "[policies][h2o]") {
  const reference::Inputs whole = reference::random_inputs(
      {.group = 1, .rows = {1000}, .dim = 4, .value_dim = 4, .queries = 1000}, 9);
  TestResources res({.threads = 1});
  H2O::State state{H2O{}};
  std::vector<std::size_t> held;
  for (std::size_t t = 0; t < 1000; ++t) {
    held.push_back(t);
    reference::Inputs inputs = with_rows(whole, 0, held);
    inputs.row_positions = {reference::Positions(held.begin(), held.end())};
    inputs.queries[0] = rows_of(whole.queries[0], {t});
    inputs.query_positions = {static_cast<std::int64_t>(t)};
    const PackedCache<float> cache(inputs);
    const PolicyEvidence evidence(inputs);
    observe(res, state, cache.view(), *evidence.view().query_window);
    const Selection kept =
        kvevict::evict(res, TestPolicy(H2O{}), cache.view(), {.attention_mass = state.mass()},
                       kvevict::Budget::rows(16), {.recent = 8});
    state.compact(res, kept);
    std::vector<std::size_t> remaining;
    for (const std::int32_t row : kept.head(0)) {
      remaining.push_back(held[static_cast<std::size_t>(row)]);
    }
    held = remaining;
    if (held.size() != std::min<std::size_t>(t + 1, 16) || held.back() != t) FAIL("step " << t);
  }
  CHECK(state.mass().layout.rows(0) == 16);
}

}  // namespace h2o_state_test
