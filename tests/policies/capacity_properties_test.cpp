// SPDX-License-Identifier: Apache-2.0
// What follows from the leverage in a capacity matrix, whichever policy gives the weights.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "kvevict/policies/capkv.hpp"
#include "kvevict/policies/jacap.hpp"
#include "policies/compare_with_reference.hpp"
#include "policies/edit_inputs.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/capacity.hpp"
#include "reference/linear.hpp"
#include "reference/policies.hpp"
#include "reference/random_inputs.hpp"

using namespace kvevict_test;
using kvevict::CapKV;
using kvevict::Covariance;
using kvevict::Jacap;
using kvevict::Noise;
using kvevict::WeightEvidence;
using kvevict_test::TestPolicy;

namespace {

// One head and one query head, so that a score is the leverage in one matrix.
reference::Inputs single_head(std::uint64_t seed, std::size_t rows = 60, std::size_t dim = 8) {
  return reference::random_inputs(
      {.group = 1, .rows = {rows}, .dim = dim, .value_dim = dim, .queries = 12}, seed);
}

// Policies of one matrix each, every row in it.
std::vector<TestPolicy> with_noise(Noise noise) {
  return {Jacap{.noise = noise, .evidence = WeightEvidence::mean},
          Jacap{.covariance = Covariance::none, .noise = noise, .evidence = WeightEvidence::mean},
          Jacap{.noise = noise, .evidence = WeightEvidence::probes},
          CapKV{.skip_first = 0, .noise = noise}};
}

// The double-precision weights w of the policies above, in the same order.
std::vector<std::vector<double>> weights_of(const reference::Inputs& inputs) {
  const reference::Matrix& keys = inputs.keys[0];
  const double* mean = inputs.stats.mean[0].data();
  const std::vector<double> z = reference::logits(mean, keys, 1);
  const std::vector<double> a = reference::softmax(z);
  const std::vector<double> kappa =
      reference::quadratic_form(keys, inputs.stats.covariance[0], reference::Covariance::diagonal);
  std::vector<std::vector<double>> w(4, std::vector<double>(keys.rows));
  const reference::Matrix probes = reference::probe_weights(inputs, 0);
  for (std::size_t i = 0; i < keys.rows; ++i) {
    const double rho = a[i] * (1 - a[i]);
    w[0][i] = rho * rho * kappa[i] / static_cast<double>(keys.cols);
    w[1][i] = rho * rho;
    double mean_rho = 0;
    for (std::size_t q = 0; q < probes.rows; ++q) {
      mean_rho += probes(q, i) * (1 - probes(q, i)) / static_cast<double>(probes.rows);
    }
    w[2][i] = mean_rho * mean_rho;
    w[3][i] = std::exp(z[i] - *std::max_element(z.begin(), z.end()));
  }
  return w;
}

double square(const reference::Matrix& a, std::size_t row) {
  return reference::dot(&a.data[row * a.cols], &a.data[row * a.cols], a.cols);
}

double sum(const std::vector<float>& scores) {
  return std::accumulate(scores.begin(), scores.end(), 0.0);
}

void check_equal(const std::vector<float>& got, const std::vector<float>& want) {
  const float largest = *std::max_element(want.begin(), want.end());
  const Comparison comparison =
      compare(got, want, {capacity_score.rel, capacity_score.abs * static_cast<double>(largest)});
  INFO(comparison.describe());
  CHECK(comparison.within());
}

}  // namespace

TEST_CASE("capacity: a score is at least 0 and below 1", "[policies][capacity]") {
  // With little noise the score of a row that nothing replaces comes as near to 1 as rounding goes;
  // five values in eight dimensions have a condition number near the 1e6 of the promise.
  constexpr float rounding = static_cast<float>(capacity_score.rel);
  for (const Noise noise :
       {Noise::absolute(1), Noise::relative(1e-6), Noise::relative(0.1), Noise::relative(100)}) {
    const bool little = noise.value < 1e-3;
    for (const TestPolicy& policy : with_noise(noise)) {
      for (const std::size_t rows : {1u, 5u, 200u}) {
        const std::vector<float> scores = library_scores(policy, single_head(rows, rows));
        CHECK(*std::min_element(scores.begin(), scores.end()) >= 0);
        CHECK(*std::max_element(scores.begin(), scores.end()) < (little ? 1 + rounding : 1));
      }
    }
  }
}

TEST_CASE("capacity: scores sum to d - s2 tr(A^-1)", "[policies][capacity]") {
  const reference::Inputs inputs = single_head(1);
  const reference::Matrix& values = inputs.values[0];
  const std::vector<std::vector<double>> weights = weights_of(inputs);
  for (const double s2 : {1e-5, 1e-2, 1.0}) {
    const std::vector<TestPolicy> policies = with_noise(Noise::absolute(s2));
    for (std::size_t p = 0; p < policies.size(); ++p) {
      reference::Matrix a = reference::identity(8);
      for (double& value : a.data) value *= s2;
      for (std::size_t i = 0; i < values.rows; ++i) {
        for (std::size_t r = 0; r < 8; ++r) {
          for (std::size_t c = 0; c < 8; ++c)
            a(r, c) += weights[p][i] * values(i, r) * values(i, c);
        }
      }
      const reference::LinearSystem system(a);
      double trace = 0;
      for (std::size_t c = 0; c < 8; ++c) {
        std::vector<double> unit(8, 0.0);
        unit[c] = 1;
        trace += system.solve(unit)[c];
      }
      CHECK(sum(library_scores(policies[p], inputs)) == Approx(8 - s2 * trace).epsilon(1e-4));
    }
  }
}

TEST_CASE("capacity: a score is at most w |u|^2 / s2", "[policies][capacity]") {
  const reference::Inputs inputs = single_head(2);
  const std::vector<std::vector<double>> weights = weights_of(inputs);
  for (const double s2 : {1e-4, 1.0, 1e6}) {
    const std::vector<TestPolicy> policies = with_noise(Noise::absolute(s2));
    for (std::size_t p = 0; p < policies.size(); ++p) {
      const std::vector<float> scores = library_scores(policies[p], inputs);
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const double bound = weights[p][i] * square(inputs.values[0], i) / s2;
        CHECK(static_cast<double>(scores[i]) <= bound * (1 + capacity_score.rel));
        // With this much noise the bound is the score.
        if (s2 == 1e6) CHECK(static_cast<double>(scores[i]) == Approx(bound).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("capacity: scaling the values by c is scaling s2 by 1 / c^2", "[policies][capacity]") {
  const reference::Inputs inputs = single_head(3);
  reference::Inputs larger = inputs;
  larger.values = scaled(larger.values, 4);
  const std::vector<TestPolicy> policies = with_noise(Noise::absolute(0.01));
  const std::vector<TestPolicy> quieter = with_noise(Noise::absolute(0.01 / 16));
  for (std::size_t p = 0; p < policies.size(); ++p) {
    check_equal(library_scores(policies[p], larger), library_scores(quieter[p], inputs));
  }
}

TEST_CASE("capacity: with relative noise the scale of values does not matter",
          "[policies][capacity]") {
  const reference::Inputs inputs = single_head(4);
  for (const double factor : {1e-12, 1e-3, 1e12}) {
    reference::Inputs other = inputs;
    other.values = scaled(other.values, factor);
    for (const TestPolicy& policy : with_noise(Noise::relative(0.1))) {
      check_equal(library_scores(policy, other), library_scores(policy, inputs));
    }
  }
}

TEST_CASE("capacity: with relative noise the scale of weights does not matter",
          "[policies][capacity]") {
  // The covariance is a factor of Jacap's weights.
  const reference::Inputs inputs = single_head(5);
  for (const double factor : {1e-20, 1e-6, 1e6}) {
    reference::Inputs other = inputs;
    other.stats.covariance = scaled(other.stats.covariance, factor);
    const Jacap policy{.evidence = WeightEvidence::mean};
    check_equal(library_scores(policy, other), library_scores(policy, inputs));
  }
}

TEST_CASE("capacity: permuting the rows permutes the scores", "[policies][capacity]") {
  const reference::Inputs inputs = single_head(6, 150);
  std::vector<std::size_t> order;
  for (const std::int64_t i : random_permutation(150, 1)) {
    order.push_back(static_cast<std::size_t>(i));
  }
  for (const TestPolicy& policy : with_noise(Noise::relative(0.1))) {
    const std::vector<float> scores = library_scores(policy, inputs);
    std::vector<float> want;
    for (const std::size_t row : order) want.push_back(scores[row]);
    check_equal(library_scores(policy, with_rows(inputs, 0, order)), want);
  }
}

TEST_CASE("capacity: a duplicate lowers the leverage of a row", "[policies][capacity]") {
  // For fixed weights: CapKV's weights are relative to the largest logit, which a copy does not
  // change.
  const reference::Inputs inputs = single_head(7, 20);
  std::vector<std::size_t> rows(20);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const CapKV policy{.skip_first = 0, .noise = Noise::absolute(0.1)};
  const std::vector<float> before = library_scores(policy, inputs);
  for (const std::size_t copied : {0u, 7u, 19u}) {
    std::vector<std::size_t> with_copy = rows;
    with_copy.push_back(copied);
    const std::vector<float> after = library_scores(policy, with_rows(inputs, 0, with_copy));
    CHECK(after[copied] < before[copied]);
    CHECK(after[copied] == Approx(after[20]));
    // The other rows do not gain either: A only grows.
    for (std::size_t i = 0; i < 20; ++i) CHECK(after[i] <= before[i] * 1.0001f);
  }
}

TEST_CASE("capacity: an orthogonal rotation of the values changes nothing",
          "[policies][capacity]") {
  const reference::Inputs inputs = single_head(8);
  reference::Inputs turned = inputs;
  turned.values = rotated(inputs.values, random_rotation(8, 2));
  for (const Noise noise : {Noise::absolute(0.01), Noise::relative(0.1)}) {
    for (const TestPolicy& policy : with_noise(noise)) {
      check_equal(library_scores(policy, turned), library_scores(policy, inputs));
    }
  }
}

TEST_CASE("capacity: the projection acts by the lengths and angles it leaves",
          "[policies][capacity]") {
  // An output projection with orthonormal columns is no projection at all.
  reference::Inputs inputs = single_head(9);
  const reference::Matrix rotation = random_rotation(24, 3);
  for (std::size_t i = 0; i < 24; ++i) {
    for (std::size_t c = 0; c < 8; ++c) inputs.output_projection(i, c) = rotation(i, c);
  }
  for (TestPolicy policy : with_noise(Noise::absolute(0.01))) {
    const std::vector<float> plain = library_scores(policy, inputs);
    policy.set("output_projection=factor");
    check_equal(library_scores(policy, inputs), plain);
  }
}

TEST_CASE("capacity: matrices with a condition number of a million", "[policies][capacity]") {
  // The lengths of the values' channels fall by 1e3, those of the matrix by 1e6.
  for (const std::size_t dim : {8u, 64u}) {
    reference::Inputs inputs = single_head(10, 300, dim);
    for (std::size_t i = 0; i < 300; ++i) {
      for (std::size_t c = 0; c < dim; ++c) {
        const double exponent = static_cast<double>(c) / static_cast<double>(dim - 1);
        inputs.values[0](i, c) =
            static_cast<float>(inputs.values[0](i, c) * std::pow(1e-3, exponent));
      }
    }
    for (const char* const noise : {"relative:1e-6", "relative:1e-3", "absolute:1e-9"}) {
      for (const char* const evidence : {"mean", "probes"}) {
        const Comparison jacap = compare_with_reference(
            "Jacap", {{"noise", noise}, {"evidence", evidence}}, inputs, capacity_score);
        INFO(dim << " " << noise << " " << evidence << ": " << jacap.describe());
        CHECK(jacap.within());
      }
      const Comparison capkv =
          compare_with_reference("CapKV", {{"noise", noise}}, inputs, capacity_score);
      INFO(dim << " " << noise << ": " << capkv.describe());
      CHECK(capkv.within());
    }
  }
}
