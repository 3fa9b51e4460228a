// SPDX-License-Identifier: Apache-2.0
#include "reference/policies.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "catch.hpp"
#include "reference/linear.hpp"
#include "reference/random_inputs.hpp"
#include "support/tolerance.hpp"

using namespace kvevict_test;
using namespace kvevict_test::reference;

namespace {

Inputs one_head(std::size_t rows, std::uint64_t seed) {
  return random_inputs({.group = 1, .rows = {rows}}, seed);
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  const Comparison comparison = compare(a, b, tolerance::float64_sum);
  INFO(comparison.describe());
  CHECK(comparison.within());
  return comparison.within();
}

CapKV reference_form(double epsilon) {
  return {.form = CapKV::Form::reference, .epsilon = epsilon, .skip_first = 0, .noise = {false, 1}};
}

// The rows of a matrix in another order.
Matrix permuted(const Matrix& a, const std::vector<std::int64_t>& order) {
  Matrix out(a.rows, a.cols);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t c = 0; c < a.cols; ++c) out(i, c) = a(static_cast<std::size_t>(order[i]), c);
  }
  return out;
}

}  // namespace

TEST_CASE("KeyDiff: zero keys and keys that cancel score 0") {
  Inputs inputs;
  inputs.keys = {Matrix(3, 2)};
  inputs.keys[0].data = {1, 0, 0, 0, -1, 0};
  CHECK(score(KeyDiff{}, inputs)[0] == std::vector<double>{0, 0, 0});
  inputs.keys[0].data = {2, 0, 0, 0, 5, 0};
  CHECK(score(KeyDiff{}, inputs)[0] == std::vector<double>{-1, 0, -1});
}

TEST_CASE("SnapKV: holes are masked by position, window rows get the largest score") {
  Inputs inputs = random_inputs({.group = 2, .rows = {6, 6}, .queries = 3}, 4);
  inputs.row_positions = {{0, 2, 5, 8, 9, 10}, {0, 1, 2, 8, 9, 10}};
  inputs.query_positions = {8, 9, 10};
  const Scores scores =
      score(SnapKV{.window = 2, .kernel = 1, .reduction = Reduction::sum}, inputs);
  for (std::size_t g = 0; g < 2; ++g) {
    double want = 0;
    for (std::size_t r = 0; r < 2; ++r) {
      const Matrix& queries = inputs.queries[2 * g + r];
      const Matrix weights = causal_attention(queries, inputs.query_positions, inputs.keys[g],
                                              inputs.row_positions[g]);
      want += (weights(1, 1) + weights(2, 1)) / 2;
    }
    CHECK(scores[g][1] == Approx(want));
    const double largest = *std::max_element(scores[g].begin(), scores[g].begin() + 4);
    CHECK(scores[g][4] == largest);
    CHECK(scores[g][5] == largest);
  }
}

TEST_CASE("SnapKV: with every row in the window all scores are equal") {
  const Inputs inputs = random_inputs({.group = 2, .rows = {7}, .queries = 7}, 4);
  CHECK(score(SnapKV{.window = 7}, inputs)[0] == std::vector<double>(7, 0.0));
  CHECK(score(SnapKV{.window = 100}, inputs)[0] == std::vector<double>(7, 0.0));
}

TEST_CASE("ExpectedAttention: the log domain orders alike and does not underflow") {
  Inputs inputs = random_inputs({}, 5);
  ExpectedAttention policy{.epsilon = 0.01};
  const Scores plain = score(policy, inputs);
  policy.log_domain = true;
  const Scores logs = score(policy, inputs);
  for (std::size_t i = 0; i < plain[0].size(); ++i) {
    CHECK(std::exp(logs[0][i]) == Approx(plain[0][i]));
  }
  policy.epsilon = 0;
  for (double& value : inputs.stats.mean[0]) value *= 1e4;
  inputs.stats.mean[1] = inputs.stats.mean[0];
  const std::vector<double> saturated = score(policy, inputs)[0];
  CHECK(std::all_of(saturated.begin(), saturated.end(), [](double x) { return std::isfinite(x); }));
  policy.log_domain = false;
  const std::vector<double> underflown = score(policy, inputs)[0];
  CHECK(std::count(underflown.begin(), underflown.end(), 0.0) > 0);
}

TEST_CASE("ExpectedAttention: attention sums to one and reductions follow the group") {
  const Inputs inputs = random_inputs({}, 6);
  ExpectedAttention policy{.value_norm = ValueNorm::none, .skip_first = 0};
  const std::vector<double> mean = score(policy, inputs)[1];
  CHECK(std::accumulate(mean.begin(), mean.end(), 0.0) == Approx(1.0));
  policy.reduction = Reduction::sum;
  const std::vector<double> sum = score(policy, inputs)[1];
  policy.reduction = Reduction::max;
  const std::vector<double> max = score(policy, inputs)[1];
  for (std::size_t i = 0; i < mean.size(); ++i) {
    CHECK(sum[i] == Approx(2 * mean[i]));
    CHECK(max[i] >= mean[i]);
    CHECK(max[i] <= sum[i]);
  }
}

TEST_CASE("ExpectedAttention: epsilon per row, value scale and projected norms") {
  const Inputs inputs = random_inputs({.rows = {50, 50}}, 7);
  const Scores scores = score(ExpectedAttention{.epsilon = 0.5, .epsilon_per_row = true}, inputs);
  same(scores[0], score(ExpectedAttention{.epsilon = 0.01}, inputs)[0]);

  // An output projection of orthonormal columns keeps every norm.
  Inputs projected = inputs;
  projected.output_projection = identity(32);
  same(score(ExpectedAttention{.value_norm = ValueNorm::output_projection, .epsilon = 0.1},
             projected)[0],
       score(ExpectedAttention{.epsilon = 0.1}, inputs)[0]);
  // A sum over two heads adds epsilon once to a norm of the KV head, twice to norms of query heads.
  same(score(ExpectedAttention{.value_norm = ValueNorm::output_projection,
                               .epsilon = 0.1,
                               .reduction = Reduction::sum},
             projected)[1],
       score(ExpectedAttention{.epsilon = 0.2, .reduction = Reduction::sum}, inputs)[1]);
  // Without a value norm epsilon does nothing.
  ExpectedAttention plain{.value_norm = ValueNorm::none};
  const Scores without = score(plain, inputs);
  plain.epsilon = 0.1;
  CHECK(score(plain, inputs) == without);
}

TEST_CASE("rows that a normaliser skips get the largest score, too few rows are all equal") {
  const Inputs inputs = random_inputs({.rows = {9, 3}}, 8);
  for (const Scores& scores : {score(ExpectedAttention{}, inputs), score(CapKV{}, inputs)}) {
    const double largest = *std::max_element(scores[0].begin() + 4, scores[0].end());
    for (std::size_t i = 0; i < 4; ++i) CHECK(scores[0][i] == largest);
    CHECK(largest > 0);
    CHECK(scores[1] == std::vector<double>(3, 0.0));
  }
}

TEST_CASE("Jacap: weights by hand for two rows") {
  Inputs inputs;
  inputs.keys = {Matrix(2, 1)};
  inputs.keys[0].data = {1, 0};
  inputs.values = {Matrix(2, 1)};
  inputs.values[0].data = {1, 3};
  inputs.stats.mean = {{std::log(3.0)}};
  inputs.stats.covariance = {Matrix(1, 1)};
  inputs.stats.covariance[0].data = {2};
  // a = 3/4, 1/4; rho = 3/16 for both; kappa = 2, 0; w = 9/128, 0; A = 1 + 9/128
  const Jacap policy{.noise = {false, 1}, .pooled = false};
  same(score(policy, inputs)[0], {9.0 / 137, 0});
  // without covariance w = 9/256 for both, A = 1 + 9/256 * 10
  const Jacap plain{.covariance = Covariance::none, .noise = {false, 1}, .pooled = false};
  same(score(plain, inputs)[0], {9.0 / 346, 81.0 / 346});
}

TEST_CASE("Jacap: permuting rows permutes scores, an orthogonal map of values changes nothing") {
  const Inputs inputs = one_head(30, 9);
  const std::vector<double> before = score(Jacap{}, inputs)[0];
  const std::vector<std::int64_t> order = random_permutation(30, 1);
  Inputs moved = inputs;
  moved.keys[0] = permuted(inputs.keys[0], order);
  moved.values[0] = permuted(inputs.values[0], order);
  const std::vector<double> after = score(Jacap{}, moved)[0];
  for (std::size_t i = 0; i < 30; ++i) {
    CHECK(after[i] == Approx(before[static_cast<std::size_t>(order[i])]));
  }
  moved = inputs;
  for (std::size_t i = 0; i < 30; ++i) {
    const double a = inputs.values[0](i, 2);
    const double b = inputs.values[0](i, 5);
    moved.values[0](i, 2) = 0.6 * a - 0.8 * b;
    moved.values[0](i, 5) = 0.8 * a + 0.6 * b;
  }
  same(score(Jacap{}, moved)[0], before);
}

TEST_CASE("Jacap: a very high temperature makes the attention uniform") {
  const Inputs inputs = one_head(20, 10);
  const std::vector<double> r = score(
      Jacap{.temperature = 1e12, .covariance = Covariance::none, .noise = {true, 0.1}}, inputs)[0];
  const std::vector<double> equal(20, 1.0);
  same(r, leverage(inputs.values[0], {}, equal, equal, {true, 0.1}));
}

TEST_CASE("Jacap: a row that holds all the attention has no weight") {
  Inputs inputs = one_head(20, 11);
  for (std::size_t c = 0; c < 8; ++c) inputs.keys[0](3, c) = 300 * inputs.stats.mean[0][c];
  const std::vector<double> r = score(Jacap{.noise = {false, 1}}, inputs)[0];
  for (const double value : r) CHECK(value >= 0);
  CHECK(r[3] < 1e-12);
}

TEST_CASE("Jacap: a group of equal heads is one head, pooled or not") {
  Inputs single = one_head(25, 12);
  Inputs inputs = single;
  for (Heads* heads : {&inputs.queries, &inputs.probes}) heads->push_back(heads->front());
  inputs.stats.mean.push_back(inputs.stats.mean[0]);
  inputs.stats.covariance.push_back(inputs.stats.covariance[0]);
  for (const bool probes : {false, true}) {
    for (const bool pooled : {false, true}) {
      const Jacap policy{.pooled = pooled, .probes = probes};
      same(score(policy, inputs)[0], score(policy, single)[0]);
    }
  }
}

TEST_CASE("Jacap: pooling differs from reducing, and each head stands alone") {
  const Inputs inputs = random_inputs({.rows = {20, 33}}, 13);
  const Scores pooled = score(Jacap{.probes = true}, inputs);
  const Scores apart = score(Jacap{.pooled = false, .probes = true}, inputs);
  CHECK_FALSE(compare(pooled[1], apart[1], tolerance::float64_sum).within());

  Inputs second;
  second.keys = {inputs.keys[1]};
  second.values = {inputs.values[1]};
  second.probes = {inputs.probes[2], inputs.probes[3]};
  CHECK(score(Jacap{.probes = true}, second)[0] == pooled[1]);
}

TEST_CASE("CapKV: the paper's weights by hand") {
  Inputs inputs;
  inputs.keys = {Matrix(3, 4)};
  inputs.keys[0].data = {2, 0, 0, 0, 0, 0, 0, 0, -2, 1, 1, 1};
  inputs.values = {Matrix(3, 1)};
  inputs.values[0].data = {1, 2, 1};
  inputs.stats.mean = {{3, 0, 0, 0}};
  // l = 3, 0, -3; w = 1, e^-2, e^-4 at temperature 1.5; A = 1 + w.v^2
  const double w1 = std::exp(-2.0);
  const double w2 = std::exp(-4.0);
  const double a = 2 + 4 * w1 + w2;
  const CapKV policy{
      .form = CapKV::Form::paper, .temperature = 1.5, .skip_first = 0, .noise = {false, 1}};
  same(score(policy, inputs)[0], {1 / a, 4 * w1 / a, w2 / a});
}

TEST_CASE("CapKV: leverages sum to d - s2 tr A^-1 with the weights of the capacity matrix") {
  const Inputs inputs = one_head(40, 14);
  const Matrix& values = inputs.values[0];
  const double epsilon = 0.01;
  const std::vector<double> r = score(reference_form(epsilon), inputs)[0];

  std::vector<double> w(40);
  const double* mean = inputs.stats.mean[0].data();
  for (std::size_t i = 0; i < 40; ++i) {
    const double* key = &inputs.keys[0].data[i * 8];
    w[i] = dot(mean, key, 8) / norm(mean, 8) / norm(key, 8);
  }
  const double largest = *std::max_element(w.begin(), w.end());
  Matrix capacity = identity(8);
  double sum = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    w[i] = std::exp(5 * (w[i] - largest));
    for (std::size_t a = 0; a < 8; ++a) {
      for (std::size_t b = 0; b < 8; ++b) {
        capacity(a, b) += (w[i] + epsilon) * values(i, a) * values(i, b);
      }
    }
    sum += r[i] * (w[i] + epsilon) / w[i];
    CHECK(r[i] >= 0);
    CHECK(r[i] < 1);
  }
  double inverse_trace = 0;
  for (std::size_t a = 0; a < 8; ++a) {
    std::vector<double> unit(8, 0.0);
    unit[a] = 1;
    inverse_trace += LinearSystem(capacity).solve(unit)[a];
  }
  CHECK(sum == Approx(8 - inverse_trace));
}

TEST_CASE("CapKV: pooling brings the weights of the group together before one solve") {
  const Inputs inputs = random_inputs({.rows = {30}}, 17);
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    const CapKV policy{.skip_first = 0, .reduction = reduction, .pooled = true};
    std::vector<std::vector<double>> weights;
    for (std::size_t r = 0; r < 2; ++r) {
      std::vector<double> z = logits(inputs.stats.mean[r].data(), inputs.keys[0], 1);
      const double largest = *std::max_element(z.begin(), z.end());
      for (double& value : z) value = std::exp(value - largest);
      weights.push_back(z);
    }
    const std::vector<double> w = reduce(weights, reduction);
    same(score(policy, inputs)[0], leverage(inputs.values[0], {}, w, w, policy.noise));
  }
}

TEST_CASE("CapKV: only the direction of the mean query matters in the reference form") {
  Inputs inputs = random_inputs({}, 15);
  const CapKV policy = reference_form(1e-6);
  const std::vector<double> before = score(policy, inputs)[0];
  for (double& value : inputs.stats.mean[0]) value *= 7;
  same(score(policy, inputs)[0], before);
  for (double& value : inputs.stats.mean[0]) value *= -1;
  CHECK_FALSE(compare(score(policy, inputs)[0], before, tolerance::float64_sum).within());
}

TEST_CASE("StreamingLLM: sinks first, by position, then the latest rows") {
  Inputs inputs = one_head(6, 1);
  CHECK(score(StreamingLLM{2}, inputs)[0] == std::vector<double>{6, 6, 2, 3, 4, 5});
  inputs.row_positions = {{1, 5, 6, 7, 8, 9}};
  CHECK(score(StreamingLLM{2}, inputs)[0] == std::vector<double>{6, 1, 2, 3, 4, 5});
}

TEST_CASE("random inputs are float32 numbers and depend on the seed") {
  const Inputs inputs = random_inputs({.rows = {5, 9}, .values = Shape::heavy_tailed}, 16);
  CHECK(inputs.kv_heads() == 2);
  CHECK(inputs.query_heads() == 4);
  CHECK(row_offsets(inputs.keys) == std::vector<std::int64_t>{0, 5, 14});
  const std::vector<float> packed = packed_float(inputs.keys);
  CHECK(packed.size() == 14 * 8);
  CHECK(packed[5 * 8 + 3] == inputs.keys[1](0, 3));
  for (const std::vector<double>& mean : inputs.stats.mean) {
    for (const double value : mean) CHECK(static_cast<double>(static_cast<float>(value)) == value);
  }
  CHECK(random_inputs({}, 17).keys[0].data != random_inputs({}, 18).keys[0].data);
}
