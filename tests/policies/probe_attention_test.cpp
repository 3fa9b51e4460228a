// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/probe_attention.hpp"

#include <cmath>
#include <vector>

#include "catch.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::ProbeAttention;
using kvevict::ProbeStatistic;
using kvevict::ValueNorm;

TEST_CASE("ProbeAttention: scores are those of the double-precision loops", "[policies][probes]") {
  for (const char* const statistic : {"mean", "rms", "max"}) {
    for (const char* const norm : {"none", "norm", "output_projection"}) {
      check_varied("ProbeAttention", {{"statistic", statistic}, {"value_norm", norm}},
                   attention_score);
    }
  }
}

TEST_CASE("ProbeAttention: one probe's weights are its softmax, whatever the statistic",
          "[policies][probes]") {
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(3, 1)};
  inputs.keys[0].data = {0, std::log(2.0), std::log(5.0)};
  inputs.values = {reference::Matrix(3, 1)};
  inputs.values[0].data = {4, -2, 1};
  inputs.probes = {reference::Matrix(1, 1)};
  inputs.probes[0].data = {1};
  for (const ProbeStatistic statistic :
       {ProbeStatistic::mean, ProbeStatistic::rms, ProbeStatistic::max}) {
    const Comparison plain =
        compare(library_scores(ProbeAttention{statistic}, inputs),
                std::vector<double>{0.125, 0.25, 0.625}, tolerance::float32_sum);
    INFO(plain.describe());
    CHECK(plain.within());
    const Comparison weighted =
        compare(library_scores(ProbeAttention{statistic, ValueNorm::norm}, inputs),
                std::vector<double>{0.5, 0.5, 0.625}, tolerance::float32_sum);
    INFO(weighted.describe());
    CHECK(weighted.within());
  }
}

TEST_CASE("ProbeAttention: means sum to one for every head, so heads can be compared",
          "[policies][probes]") {
  const reference::Inputs inputs =
      reference::random_inputs({.group = 3, .rows = {200, 50}, .dim = 16, .probes = 24}, 3);
  const std::vector<float> scores = library_scores(ProbeAttention{ProbeStatistic::mean}, inputs);
  double first = 0.0;
  double second = 0.0;
  for (std::size_t i = 0; i < 200; ++i) first += static_cast<double>(scores[i]);
  for (std::size_t i = 200; i < 250; ++i) second += static_cast<double>(scores[i]);
  // Each weight is off by a few units of 2^-24 relative to itself.
  CHECK(std::abs(first - 1.0) < 1e-5);
  CHECK(std::abs(second - 1.0) < 1e-5);
  CHECK(ProbeAttention{}.comparable_across_heads());
  CHECK_FALSE(ProbeAttention{.value_norm = ValueNorm::norm}.comparable_across_heads());
}
