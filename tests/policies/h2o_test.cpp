// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/h2o.hpp"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "catch.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using kvevict::Accumulation;
using kvevict::H2O;

TEST_CASE("H2O: scores are those of the double-precision loops", "[policies][h2o]") {
  check_varied("H2O", {}, attention_score);
  check_varied("H2O", {{"accumulation", "mean"}}, attention_score);
  check_varied("H2O", {{"accumulation", "max"}}, attention_score);
  for (const char* const decay : {"1", "0.99", "0.5"}) {
    check_varied("H2O", {{"accumulation", "decay"}, {"decay", decay}}, attention_score);
  }
}

TEST_CASE("H2O: every query hands out attention of one", "[policies][h2o]") {
  const reference::Inputs inputs =
      reference::random_inputs({.group = 3, .rows = {70}, .queries = 66}, 1);
  const std::vector<float> mass = library_scores(H2O{}, inputs);
  CHECK(std::accumulate(mass.begin(), mass.end(), 0.0) == Approx(66).epsilon(1e-5));
}

TEST_CASE("H2O: a decay of one is the sum", "[policies][h2o]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {70}, .queries = 66}, 2);
  CHECK(library_scores(H2O{.accumulation = Accumulation::decay, .decay = 1}, inputs) ==
        library_scores(H2O{}, inputs));
}

TEST_CASE("H2O: a strong decay leaves what the last query pays", "[policies][h2o]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {40}, .queries = 30}, 3);
  reference::Inputs last = inputs;
  last.query_positions = {39};
  for (reference::Matrix& head : last.queries) head = rows_of(head, {29});
  const Comparison comparison =
      compare(library_scores(H2O{.accumulation = Accumulation::decay, .decay = 1e-9}, inputs),
              library_scores(H2O{}, last), tolerance::float32_sum);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("H2O: the group's query heads are averaged", "[policies][h2o]") {
  const reference::Inputs one =
      reference::random_inputs({.group = 1, .rows = {30}, .queries = 20}, 4);
  reference::Inputs two = one;
  two.queries.push_back(two.queries[0]);
  two.probes.push_back(two.probes[0]);
  two.stats.mean.push_back(two.stats.mean[0]);
  two.stats.covariance.push_back(two.stats.covariance[0]);
  two.output_projection = {};
  CHECK(library_scores(H2O{}, two) == library_scores(H2O{}, one));
}

TEST_CASE("H2O: by the mean a newcomer can displace an old row", "[policies][h2o]") {
  // Seven queries attend uniformly, so row 0 collects 1 + 1/2 + ... + 1/7 = 2.59. The eighth pays
  // all its attention to row 7.
  reference::Inputs inputs =
      reference::random_inputs({.group = 1, .rows = {8}, .dim = 1, .queries = 8}, 5);
  inputs.queries = scaled(inputs.queries, 0);
  inputs.queries[0](7, 0) = 1;
  inputs.keys = scaled(inputs.keys, 0);
  inputs.keys[0](7, 0) = 60;
  const std::vector<float> sum = library_scores(H2O{}, inputs);
  CHECK(sum[0] == Approx(2.592857142857143));
  CHECK(sum[7] == Approx(1));
  const std::vector<float> mean = library_scores(H2O{.accumulation = Accumulation::mean}, inputs);
  CHECK(mean[0] == Approx(2.592857142857143 / 8));
  CHECK(mean[7] == Approx(1));
}

TEST_CASE("H2O: the mean counts only queries that could see a row", "[policies][h2o]") {
  reference::Inputs inputs = reference::random_inputs({.group = 1, .rows = {3}, .queries = 2}, 6);
  inputs.queries = scaled(inputs.queries, 0);
  inputs.row_positions = {{2, 5, 9}};
  inputs.query_positions = {6, 8};  // the row at 9 is seen by neither
  const std::vector<float> mean = library_scores(H2O{.accumulation = Accumulation::mean}, inputs);
  CHECK(mean == std::vector<float>{0.5f, 0.5f, 0});
}

TEST_CASE("H2O: needs the attention mass", "[policies][h2o]") {
  CHECK(H2O{}.needs() == kvevict::EvidenceSet{kvevict::EvidenceKind::attention_mass});
  CHECK_FALSE(H2O{}.comparable_across_heads());
  CHECK(H2O{.accumulation = Accumulation::max}.comparable_across_heads());
  CHECK(H2O::published_protection(101).recent == 50);
  CHECK(H2O::published() == H2O{});
  CHECK(H2O::observed_attention().accumulation == Accumulation::mean);
}
