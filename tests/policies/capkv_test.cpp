// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/capkv.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "catch.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/linear.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using kvevict::CapKV;
using kvevict::CapKVForm;
using kvevict::Noise;

TEST_CASE("CapKV: scores are those of the double-precision loops", "[policies][capkv]") {
  for (const char* const form : {"paper", "reference"}) {
    for (const char* const noise : {"absolute:1", "relative:0.01", "relative:10"}) {
      check_varied("CapKV", {{"form", form}, {"noise", noise}}, capacity_score);
    }
    for (const char* const pooled : {"false", "true"}) {
      for (const char* const projection : {"none", "factor"}) {
        check_varied("CapKV",
                     {{"form", form}, {"pooled", pooled}, {"output_projection", projection}},
                     capacity_score);
      }
      for (const char* const reduction : {"max", "sum"}) {
        check_varied("CapKV", {{"form", form}, {"pooled", pooled}, {"reduction", reduction}},
                     capacity_score);
      }
    }
    for (const char* const skip_first : {"0", "10"}) {
      check_varied("CapKV", {{"form", form}, {"skip_first", skip_first}}, capacity_score);
    }
  }
  for (const char* const sharpness : {"0.1", "20"}) {
    check_varied("CapKV", {{"form", "reference"}, {"sharpness", sharpness}}, capacity_score);
  }
  for (const char* const temperature : {"0.5", "10"}) {
    check_varied("CapKV", {{"form", "paper"}, {"temperature", temperature}}, capacity_score);
  }
  for (const char* const epsilon : {"0", "0.01"}) {
    check_varied("CapKV", {{"form", "reference"}, {"epsilon", epsilon}}, capacity_score);
  }
}

TEST_CASE("CapKV: the mean query's length does not matter to the cosine", "[policies][capkv]") {
  reference::Inputs inputs = reference::random_inputs({.rows = {50}}, 1);
  const std::vector<float> scores = library_scores(CapKV::reference(), inputs);
  for (std::vector<double>& mean : inputs.stats.mean) {
    for (double& value : mean) value *= 1024;
  }
  CHECK(
      compare(library_scores(CapKV::reference(), inputs), scores, tolerance::float32_sum).within());
  CHECK_FALSE(
      compare(library_scores(CapKV::measured(), inputs), scores, Tolerance{0.1, 0.01}).within());
}

TEST_CASE("CapKV: no blunter weight than a uniform one", "[policies][capkv]") {
  // Without sharpness, or at an infinite temperature, every weight is 1 and both forms are plain
  // leverage of the values.
  const reference::Inputs inputs = reference::random_inputs({.rows = {50}}, 2);
  const CapKV blunt{.form = CapKVForm::reference, .sharpness = 1e-9, .epsilon = 0};
  const CapKV hot{.form = CapKVForm::paper, .temperature = 1e9};
  CHECK(compare(library_scores(blunt, inputs), library_scores(hot, inputs), tolerance::float32_sum)
            .within());
}

TEST_CASE("CapKV: orthonormal values give w / (s2 + w)", "[policies][capkv]") {
  reference::Inputs inputs = reference::random_inputs({.group = 1, .rows = {8}, .dim = 4}, 3);
  inputs.values[0] = random_rotation(8, 1);
  const std::vector<float> scores =
      library_scores(CapKV{.skip_first = 0, .noise = Noise::absolute(0.25)}, inputs);
  std::vector<double> logits(8);
  for (std::size_t i = 0; i < 8; ++i) {
    logits[i] = reference::dot(&inputs.keys[0].data[4 * i], inputs.stats.mean[0].data(), 4) / 2;
  }
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (std::size_t i = 0; i < 8; ++i) {
    const double w = std::exp(logits[i] - largest);
    CHECK(static_cast<double>(scores[i]) == Approx(w / (0.25 + w)).epsilon(1e-5));
  }
}

TEST_CASE("CapKV: epsilon joins the weights of the matrix, not those of the score",
          "[policies][capkv]") {
  // So it is r (w + epsilon) / w that sums to d - s2 tr(A^-1).
  const reference::Inputs inputs = reference::random_inputs({.group = 1, .rows = {50}}, 6);
  const CapKV policy{
      .form = CapKVForm::reference, .epsilon = 0.25, .skip_first = 0, .noise = Noise::absolute(2)};
  const std::vector<float> scores = library_scores(policy, inputs);
  const double* mean = inputs.stats.mean[0].data();
  std::vector<double> cosines(50);
  for (std::size_t i = 0; i < 50; ++i) {
    const double* key = &inputs.keys[0].data[8 * i];
    cosines[i] = reference::dot(mean, key, 8) / reference::norm(mean, 8) / reference::norm(key, 8);
  }
  const double largest = *std::max_element(cosines.begin(), cosines.end());
  reference::Matrix a = reference::identity(8);
  for (double& value : a.data) value *= 2;
  double sum = 0;
  for (std::size_t i = 0; i < 50; ++i) {
    const double w = std::exp(5 * (cosines[i] - largest));
    sum += static_cast<double>(scores[i]) * (w + 0.25) / w;
    for (std::size_t r = 0; r < 8; ++r) {
      for (std::size_t c = 0; c < 8; ++c) {
        a(r, c) += (w + 0.25) * inputs.values[0](i, r) * inputs.values[0](i, c);
      }
    }
  }
  const reference::LinearSystem system(a);
  double trace = 0;
  for (std::size_t c = 0; c < 8; ++c) {
    std::vector<double> unit(8, 0.0);
    unit[c] = 1;
    trace += system.solve(unit)[c];
  }
  CHECK(sum == Approx(8 - 2 * trace).epsilon(1e-4));
}

TEST_CASE("CapKV: the skipped rows rank first and take no part", "[policies][capkv]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {40}}, 4);
  for (const CapKV& policy : {CapKV{}, CapKV::reference()}) {
    const std::vector<float> scores = library_scores(policy, inputs);
    CHECK(std::count(scores.begin(), scores.begin() + 4,
                     *std::max_element(scores.begin() + 4, scores.end())) == 4);
    reference::Inputs other = inputs;
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t c = 0; c < 8; ++c) {
        other.keys[0](i, c) *= 100;
        other.values[0](i, c) *= 100;
      }
    }
    CHECK(library_scores(policy, other) == scores);
    const reference::Inputs few = reference::random_inputs({.rows = {4}}, 5);
    CHECK(library_scores(policy, few) == std::vector<float>(4, 0.0f));
  }
}

TEST_CASE("CapKV: presets and needs", "[policies][capkv]") {
  using kvevict::EvidenceKind;
  CHECK(CapKV::measured() == CapKV{});
  CHECK(CapKV::reference().form == CapKVForm::reference);
  CHECK(CapKV::reference().noise == Noise::absolute(1));
  CHECK(CapKV::reference().sharpness == 5);
  CHECK(CapKV{}.needs() == kvevict::EvidenceSet{EvidenceKind::query_stats});
  CHECK(CapKV{.output_projection = kvevict::ProjectionUse::factor}.needs().contains(
      EvidenceKind::output_projection));
  CHECK_FALSE(CapKV{}.comparable_across_heads());
}
