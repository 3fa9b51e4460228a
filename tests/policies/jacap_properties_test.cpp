// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "kvevict/policies/jacap.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/capacity.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::Covariance;
using kvevict::Jacap;
using kvevict::Noise;
using kvevict::WeightEvidence;
using kvevict_test::TestPolicy;

namespace {

struct Outcome {
  std::vector<float> scores;
  kvevict::Report report;
};

Outcome score(const Jacap& policy, const reference::Inputs& inputs) {
  const PackedCache<float> cache(inputs);
  const PolicyEvidence evidence(inputs);
  TestResources res({.threads = 1});
  Outcome outcome;
  outcome.scores.resize(static_cast<std::size_t>(cache.layout().total()));
  kvevict::score_rows(res, TestPolicy(policy), cache.view(), evidence.view(),
                      kvevict::ScoreView<>{outcome.scores.data(), cache.layout()});
  outcome.report = res.report();
  return outcome;
}

// Mean query along the first channel and keys whose first channel gives the logits.
reference::Inputs with_logits(const std::vector<double>& logits) {
  reference::Inputs inputs = reference::random_inputs(
      {.group = 1, .rows = {logits.size()}, .dim = 4, .value_dim = 4}, logits.size());
  inputs.probes.clear();
  inputs.stats.mean[0] = {2, 0, 0, 0};  // over sqrt(d)
  for (std::size_t i = 0; i < logits.size(); ++i) inputs.keys[0](i, 0) = logits[i];
  return inputs;
}

}  // namespace

TEST_CASE("Jacap: an infinite temperature makes the attention uniform", "[policies][jacap]") {
  // rho is then (1/N)(1 - 1/N) for every row.
  const reference::Inputs inputs = reference::random_inputs({.group = 1, .rows = {50}}, 1);
  const Jacap policy{.temperature = 1e9,
                     .covariance = Covariance::none,
                     .noise = Noise::absolute(1e-3),
                     .evidence = WeightEvidence::mean};
  const double rho = 1.0 / 50 * (1 - 1.0 / 50);
  const std::vector<double> w(50, rho * rho);
  const std::vector<double> want = reference::leverage(inputs.values[0], {}, w, w, {false, 1e-3});
  const Comparison comparison = compare(library_scores(policy, inputs), want, capacity_score);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

TEST_CASE("Jacap: a saturated softmax has nothing to lose", "[policies][jacap]") {
  // One row takes all attention: the Jacobian a (1 - a) vanishes and all scores with it.
  std::vector<double> logits(20, 0.0);
  for (const double gap : {20.0, 40.0, 80.0}) {
    logits[7] = gap;
    const Outcome outcome = score(
        Jacap{.noise = Noise::absolute(1), .evidence = WeightEvidence::mean}, with_logits(logits));
    for (const float value : outcome.scores) CHECK((value >= 0 && value < 1e-12f));
    CHECK(outcome.report.zero_capacity_heads == 0);
  }
}

TEST_CASE("Jacap: 1 - a keeps its digits where a rounds to one", "[policies][jacap]") {
  for (const double gap : {5.0, 16.0, 30.0}) {
    std::vector<double> logits(20, 0.0);
    logits[3] = gap;
    logits[11] = 1;
    const reference::Inputs inputs = with_logits(logits);
    for (const char* const noise : {"relative:0.1", "absolute:1e-30"}) {
      const Comparison comparison = compare_with_reference(
          "Jacap", {{"evidence", "mean"}, {"noise", noise}}, inputs, capacity_score);
      INFO("gap " << gap << ", " << noise << ": " << comparison.describe());
      CHECK(comparison.within());
    }
  }
}

TEST_CASE("Jacap: weights that underflow score zero and are counted", "[policies][jacap]") {
  std::vector<double> logits(20, 0.0);
  logits[7] = 500;
  for (const bool pooled : {false, true}) {
    const Outcome outcome =
        score(Jacap{.pooled = pooled, .evidence = WeightEvidence::mean}, with_logits(logits));
    CHECK(outcome.scores == std::vector<float>(20, 0.0f));
    CHECK(outcome.report.zero_capacity_heads == 1);
    CHECK(outcome.report.failed_factorizations == 0);
  }
}

TEST_CASE("Jacap: values of zero have no capacity", "[policies][jacap]") {
  reference::Inputs inputs = reference::random_inputs({.group = 2, .rows = {30, 30}}, 2);
  inputs.values[1] = reference::Matrix(30, 8);
  for (const Noise noise : {Noise::relative(0.1), Noise::absolute(1)}) {
    const Outcome outcome = score(Jacap{.noise = noise, .pooled = false}, inputs);
    CHECK(std::count(outcome.scores.begin() + 30, outcome.scores.end(), 0.0f) == 30);
    CHECK(*std::min_element(outcome.scores.begin(), outcome.scores.begin() + 30) > 0);
    CHECK(outcome.report.zero_capacity_heads == 2);  // one for each query head
  }
}

TEST_CASE("Jacap: a lone row gets all attention and no score", "[policies][jacap]") {
  const reference::Inputs inputs = reference::random_inputs({.group = 2, .rows = {1}}, 3);
  for (const WeightEvidence evidence : {WeightEvidence::mean, WeightEvidence::probes}) {
    CHECK(score(Jacap{.evidence = evidence}, inputs).scores == std::vector<float>{0});
  }
}

TEST_CASE("Jacap: pooled and per query head agree for a group of one", "[policies][jacap]") {
  const reference::Inputs inputs = reference::random_inputs({.group = 1, .rows = {60}}, 4);
  for (const WeightEvidence evidence : {WeightEvidence::mean, WeightEvidence::probes}) {
    CHECK(compare(score(Jacap{.pooled = true, .evidence = evidence}, inputs).scores,
                  score(Jacap{.pooled = false, .evidence = evidence}, inputs).scores,
                  capacity_score)
              .within());
  }
}

TEST_CASE("Jacap: identical probes are one probe", "[policies][jacap]") {
  reference::Inputs inputs = reference::random_inputs({.group = 2, .rows = {60}, .probes = 1}, 5);
  const Jacap policy{.evidence = WeightEvidence::probes};
  const std::vector<float> one = library_scores(policy, inputs);
  for (reference::Matrix& head : inputs.probes) head = rows_of(head, {0, 0, 0, 0});
  CHECK(compare(library_scores(policy, inputs), one, capacity_score).within());
}
