// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/drop_loss.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/linear.hpp"
#include "reference/policies.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::DropLoss;

namespace {

// One head of one channel and one probe, so that keys are logits.
reference::Inputs one_probe(std::vector<double> logits, std::vector<double> values) {
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(logits.size(), 1)};
  inputs.keys[0].data = std::move(logits);
  inputs.values = {reference::Matrix(values.size(), 1)};
  inputs.values[0].data = std::move(values);
  inputs.probes = {reference::Matrix(1, 1)};
  inputs.probes[0].data = {1};
  return inputs;
}

void check_scores(const reference::Inputs& inputs, const std::vector<double>& want,
                  Tolerance tolerance = tolerance::float32_sum) {
  const Comparison comparison = compare(library_scores(DropLoss{}, inputs), want, tolerance);
  INFO(comparison.describe());
  CHECK(comparison.within());
}

// The attention output of a probe over all rows but one.
std::vector<double> output(const reference::Inputs& inputs, std::size_t query_head,
                           std::size_t probe, std::size_t without) {
  const std::size_t g = query_head / inputs.group();
  const reference::Matrix& keys = inputs.keys[g];
  std::vector<double> logits =
      reference::logits(&inputs.probes[query_head].data[probe * keys.cols], keys, 1.0);
  std::vector<std::size_t> rows;
  std::vector<double> kept;
  for (std::size_t i = 0; i < keys.rows; ++i) {
    if (i == without) continue;
    rows.push_back(i);
    kept.push_back(logits[i]);
  }
  const std::vector<double> weights = reference::softmax(kept);
  std::vector<double> out(inputs.values[g].cols, 0.0);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    for (std::size_t c = 0; c < out.size(); ++c)
      out[c] += weights[k] * inputs.values[g](rows[k], c);
  }
  return out;
}

}  // namespace

TEST_CASE("DropLoss: scores are those of the double-precision loops", "[policies][probes]") {
  for (const char* const projection : {"none", "factor"}) {
    check_varied("DropLoss", {{"output_projection", projection}}, attention_score);
  }
}

TEST_CASE("DropLoss: a score is the change of the outputs when the row is taken out",
          "[policies][probes]") {
  const reference::Inputs inputs = reference::random_inputs(
      {.group = 2, .rows = {37}, .dim = 16, .value_dim = 12, .probes = 5}, 7);
  std::vector<double> want;
  for (std::size_t j = 0; j < 37; ++j) {
    double squares = 0.0;
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t probe = 0; probe < 5; ++probe) {
        const std::vector<double> before = output(inputs, head, probe, 37);
        const std::vector<double> after = output(inputs, head, probe, j);
        for (std::size_t c = 0; c < before.size(); ++c) {
          squares += (before[c] - after[c]) * (before[c] - after[c]);
        }
      }
    }
    want.push_back(std::sqrt(squares / 10.0));
  }
  check_scores(inputs, want);
}

TEST_CASE("DropLoss: a row with nearly all weight costs its distance from the others' output",
          "[policies][probes]") {
  // Logit L: of the weight e^-L is elsewhere, down to 1e-37.
  for (const double logit : {1.0, 5.0, 20.0, 40.0, 85.0}) {
    const double share = std::exp(logit) / (std::exp(logit) + 2.0);
    const double other = 1.0 / (std::exp(logit) + 2.0);
    // Output 3 share - 1 other + 5 other; without the first row it is 2.
    check_scores(one_probe({logit, 0, 0}, {3, -1, 5}),
                 {share, other / (1 - other) * std::abs(3 * share + 4 * other + 1),
                  other / (1 - other) * std::abs(3 * share + 4 * other - 5)});
  }
}

TEST_CASE("DropLoss: without any other weight the output becomes 0", "[policies][probes]") {
  check_scores(one_probe({2}, {-7}), {7});
  // Lower by more than 87: no weight in fp32.
  check_scores(one_probe({120, 0, -300}, {-7, 1, 2}), {7, 0, 0});
  // A probe that stands before all rows sees none.
  reference::Inputs inputs = one_probe({1, 2}, {3, 4});
  inputs.row_positions = {{5, 6}};
  inputs.probe_positions = {4};
  check_scores(inputs, {0, 0});
  inputs.probe_positions = {5};
  check_scores(inputs, {3, 0});
}

TEST_CASE("DropLoss: weights whose squares leave fp32 still count", "[policies][probes]") {
  // p = 1e-17, 1e-26 and 1e-35.
  const std::vector<float> scores =
      library_scores(DropLoss{}, one_probe({0, -40, -60, -80}, {1, 2, 3, 5}));
  const std::vector<double> want = {1.0, std::exp(-40.0), 2 * std::exp(-60.0), 4 * std::exp(-80.0)};
  REQUIRE(scores.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    // An exponential's argument of 80 is off by up to 2^-18.
    CHECK(std::abs(static_cast<double>(scores[i]) / want[i] - 1.0) < 1e-5);
  }
}

TEST_CASE("DropLoss: scores go with the values' scale, and not with their origin",
          "[policies][probes]") {
  const reference::Inputs inputs = reference::random_inputs(
      {.group = 3, .rows = {150, 40}, .dim = 16, .value_dim = 20, .probes = 24}, 11);
  const std::vector<float> scores = library_scores(DropLoss{}, inputs);
  reference::Inputs scaled = inputs;
  for (reference::Matrix& head : scaled.values) {
    for (double& v : head.data) v *= -4.0;
  }
  std::vector<float> larger = library_scores(DropLoss{}, scaled);
  for (float& s : larger) s *= 0.25f;
  CHECK(larger == scores);

  reference::Inputs moved = inputs;
  for (reference::Matrix& head : moved.values) {
    for (double& v : head.data) v += 8.0;
  }
  // Values of about 1 are rounded at 8, and so are outputs.
  check_scores(moved, std::vector<double>(scores.begin(), scores.end()), {2e-5, 2e-6});
}

TEST_CASE("DropLoss: rows that say the same can leave", "[policies][probes]") {
  reference::Inputs inputs = reference::random_inputs(
      {.group = 2, .rows = {60}, .dim = 16, .value_dim = 12, .probes = 8}, 5);
  for (std::size_t i = 0; i < 60; ++i) {
    for (std::size_t c = 0; c < 12; ++c) inputs.values[0](i, c) = inputs.values[0](0, c);
  }
  const double length = reference::norm(inputs.values[0].data.data(), 12);
  for (const float score : library_scores(DropLoss{}, inputs)) {
    // Outputs are off from the one value by the rounding of 60 products.
    CHECK(static_cast<double>(score) <= 1e-6 * length);
  }
}

TEST_CASE("DropLoss: one budget may serve all heads", "[policies][probes]") {
  // The larger values are those of the head that loses more.
  reference::Inputs inputs = reference::random_inputs(
      {.group = 1, .rows = {50, 50}, .dim = 16, .value_dim = 12, .probes = 8}, 17);
  for (double& v : inputs.values[1].data) v *= 8.0;
  const std::vector<float> scores = library_scores(DropLoss{}, inputs);
  CHECK(*std::max_element(scores.begin() + 50, scores.end()) >
        *std::max_element(scores.begin(), scores.begin() + 50));
  CHECK(DropLoss{}.comparable_across_heads());
}

TEST_CASE("DropLoss: the number and order of probes are of no account", "[policies][probes]") {
  const reference::Inputs inputs = reference::random_inputs(
      {.group = 2, .rows = {90}, .dim = 16, .value_dim = 12, .probes = 7}, 13);
  const std::vector<float> scores = library_scores(DropLoss{}, inputs);
  reference::Inputs twice = inputs;
  for (reference::Matrix& probes : twice.probes) {
    reference::Matrix all(14, 16);
    std::copy(probes.data.begin(), probes.data.end(), all.data.begin());
    for (std::size_t i = 0; i < 7; ++i) {
      std::copy_n(probes.data.begin() + static_cast<std::ptrdiff_t>(16 * i), 16,
                  all.data.begin() + static_cast<std::ptrdiff_t>(16 * (13 - i)));
    }
    probes = all;
  }
  check_scores(twice, std::vector<double>(scores.begin(), scores.end()));
}
