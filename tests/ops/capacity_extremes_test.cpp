// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "kvevict/cpu/capacity.hpp"
#include "ops/weighted_rows_case.hpp"
#include "support/backend.hpp"

namespace capacity_extremes_test {

using namespace kvevict_test;
using kvevict::MatrixBatchView;
using kvevict::Noise;
using kvevict::Report;

namespace {

struct Outcome {
  std::vector<float> scores;
  Report report;
};

template <class T>
Outcome capacity(const RowsCase<T>& rows, Roots& roots, const Noise& noise = Noise::relative(0.1),
                 const MatrixBatchView<const float>& transforms = {}) {
  Outcome outcome;
  outcome.scores = scores_of(roots.layout, [&](auto& res, auto scores) {
    capacity_scores(res, rows.view(), roots.view(), transforms, noise, roots.view(), scores);
    outcome.report = res.report();
  });
  return outcome;
}

bool all_zero(const std::vector<float>& scores, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (scores[i] != 0.0f) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("with relative noise the scale of weights and values is free", "[ops][capacity]") {
  RowsCase<float> rows(RowsForm::packed, {60, 20}, 12, 3);
  Roots roots(rows.layout(), 1, 4);
  const std::vector<float> reference_scores = capacity(rows, roots).scores;
  const std::vector<double> want(reference_scores.begin(), reference_scores.end());

  // Roots down to the smallest normal numbers: their weights are far below the range of fp32.
  for (const float scale : {0x1p-20f, 0x1p-64f, 0x1p-70f, 0x1p-100f, 0x1p-120f, 0x1p100f}) {
    Roots scaled = roots;
    for (float& root : scaled.data) root *= scale;
    const Outcome outcome = capacity(rows, scaled);
    INFO("roots times " << scale);
    REQUIRE(outcome.report == Report{});
    require_close(outcome.scores, want, tolerance::float32_solve);
  }
  const reference::Heads unscaled = rows.exact();
  for (const float scale : {0x1p-60f, 0x1p-20f, 0x1p16f, 0x1p50f}) {
    rows.fill([&](std::int64_t h) {
      std::vector<float> values;
      for (const double v : unscaled[static_cast<std::size_t>(h)].data) {
        values.push_back(static_cast<float>(v) * scale);
      }
      return values;
    });
    INFO("values times " << scale);
    require_close(capacity(rows, roots).scores, want, tolerance::float32_solve);
  }
}

TEST_CASE("subnormal roots give scores, not infinities", "[ops][capacity]") {
  const RowsCase<float> rows(RowsForm::packed, {60, 20}, 12, 3);
  Roots roots(rows.layout(), 1, 4);
  for (const float scale : {0x1p-126f, 0x1p-135f, 0x1p-148f}) {
    Roots scaled = roots;
    // The rounding of a subnormal is part of the input.
    for (float& root : scaled.data) root *= scale;
    const Outcome outcome = capacity(rows, scaled);
    INFO("roots times " << scale);
    require_close(outcome.scores,
                  expected_leverages(rows, scaled, scaled, nullptr, Noise::relative(0.1)),
                  tolerance::float32_solve);
  }
}

TEST_CASE("weights that span many orders of magnitude", "[ops][capacity]") {
  const RowsCase<float> rows(RowsForm::head_first, {80}, 8, 3);
  Roots roots(rows.layout(), 1, 4);
  for (std::size_t i = 0; i < roots.data.size(); ++i) {
    roots.data[i] *= std::exp2(-static_cast<float>(i % 40));
  }
  const std::vector<float> got = capacity(rows, roots).scores;
  // Small leverages matter too: relative, down to 1e-24.
  require_close(got, expected_leverages(rows, roots, roots, nullptr, Noise::relative(0.1)),
                {1e-4, 0});
}

TEST_CASE("heads without weight score zero and are counted", "[ops][capacity]") {
  const RowsCase<float> rows(RowsForm::packed, {5, 7, 0, 6}, 4, 3);
  Roots roots(rows.layout(), 1, 4);
  for (std::size_t i = 5; i < 12; ++i) roots.data[i] = 0.0f;
  const Outcome outcome = capacity(rows, roots);
  REQUIRE(all_zero(outcome.scores, 5, 12));
  REQUIRE_FALSE(all_zero(outcome.scores, 0, 5));
  REQUIRE_FALSE(all_zero(outcome.scores, 12, 18));
  // The head without rows has no weight either.
  REQUIRE(outcome.report.zero_capacity_heads == 2);
  REQUIRE(outcome.report.failed_factorizations == 0);

  // Zero values have no capacity, whatever their weights.
  RowsCase<float> zeros(RowsForm::head_first, {6}, 4, 3);
  zeros.fill([](std::int64_t) { return std::vector<float>(24, 0.0f); });
  Roots ones(zeros.layout(), 1, 4);
  for (const Noise& noise : {Noise::relative(0.1), Noise::absolute(1)}) {
    const Outcome nothing = capacity(zeros, ones, noise);
    REQUIRE(all_zero(nothing.scores, 0, 6));
    REQUIRE(nothing.report.zero_capacity_heads == 1);
  }
}

TEST_CASE("NaN and infinity score zero and are counted, in their head only", "[ops][capacity]") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), inf, -inf}) {
    RowsCase<float> rows(RowsForm::packed, {5, 7, 6}, 4, 3);
    Roots roots(rows.layout(), 1, 4);
    const std::vector<float> fine = capacity(rows, roots).scores;
    rows.writable().head(1)(3, 2) = bad;
    const Outcome in_values = capacity(rows, roots);
    REQUIRE(all_zero(in_values.scores, 5, 12));
    REQUIRE(in_values.report.failed_factorizations == 1);
    REQUIRE(in_values.report.zero_capacity_heads == 0);
    for (std::size_t i = 0; i < 5; ++i) REQUIRE(in_values.scores[i] == fine[i]);
    for (std::size_t i = 12; i < 18; ++i) REQUIRE(in_values.scores[i] == fine[i]);

    const RowsCase<float> clean(RowsForm::packed, {5, 7, 6}, 4, 3);
    roots.data[2] = bad;
    const Outcome in_roots = capacity(clean, roots);
    REQUIRE(all_zero(in_roots.scores, 0, 5));
    REQUIRE(in_roots.report.failed_factorizations == 1);
    for (std::size_t i = 5; i < 18; ++i) REQUIRE(in_roots.scores[i] == fine[i]);
  }
}

TEST_CASE("NaN in a transform fails its own blocks", "[ops][capacity]") {
  const RowsCase<float> rows(RowsForm::head_first, {6, 6}, 3, 3);
  Roots roots(rows.layout(), 2, 4);
  Transforms transforms(4, 3, 5);
  const std::vector<float> fine =
      capacity(rows, roots, Noise::relative(0.1), transforms.view()).scores;
  transforms.data[9 + 4] = std::nanf("");
  const Outcome outcome = capacity(rows, roots, Noise::relative(0.1), transforms.view());
  REQUIRE(outcome.report.failed_factorizations == 1);
  REQUIRE(all_zero(outcome.scores, 6, 12));
  for (std::size_t i = 0; i < 24; ++i) {
    if (i < 6 || i >= 12) REQUIRE(outcome.scores[i] == fine[i]);
  }
}

TEST_CASE("inverse factors multiply to the inverse", "[ops][capacity]") {
  // |F x|^2 = (R x)^T (s2 I + R G R^T)^-1 (R x) for any x, here the unit vectors and their sums.
  constexpr std::size_t d = 7;
  const RowsCase<float> rows(RowsForm::head_first, {30}, d, 3);
  Roots roots(rows.layout(), 1, 4);
  const Transforms transforms(1, d, 6);
  std::vector<double> grams(d * d);
  std::vector<float> factors(d * d);
  TestResources res({.threads = 1});
  const auto gram = MatrixBatchView<double>::packed(grams.data(), 1, d, d);
  const auto factor = MatrixBatchView<float>::packed(factors.data(), 1, d, d);
  weighted_gram(res, rows.view(), roots.view(), gram);
  inverse_factor(res, MatrixBatchView<const double>(gram), transforms.view(), Noise::absolute(0.5),
                 factor);
  reference::Matrix r(d, d);
  r.data.assign(transforms.data.begin(), transforms.data.end());
  reference::Matrix g(d, d);
  g.data = grams;
  reference::Matrix a = reference::product(reference::product(r, g), reference::transposed(r));
  for (std::size_t i = 0; i < d; ++i) a(i, i) += 0.5;
  const reference::LinearSystem system(a);
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t j = 0; j < d; ++j) {
      std::vector<double> x(d, 0.0);
      x[i] += 1;
      x[j] += 1;
      const std::vector<double> rx = reference::product(r, x);
      const std::vector<double> solved = system.solve(rx);
      double length = 0;
      for (std::size_t row = 0; row < d; ++row) {
        double sum = 0;
        for (std::size_t c = 0; c < d; ++c) sum += static_cast<double>(factors[row * d + c]) * x[c];
        length += sum * sum;
      }
      REQUIRE(length == Approx(reference::dot(rx.data(), solved.data(), d)).epsilon(1e-5));
    }
  }
}

}  // namespace capacity_extremes_test
