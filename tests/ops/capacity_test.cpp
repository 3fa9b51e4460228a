// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/capacity.hpp"
#include "ops/weighted_rows_case.hpp"
#include "support/backend.hpp"

namespace capacity_test {

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::MatrixBatchView;
using kvevict::Noise;

namespace {

// Both ways to the leverages: the steps one by one, or all at once.
enum class Way { steps, at_once };

template <class T>
std::vector<float> leverages(const RowsCase<T>& rows, Roots gram_roots, Roots score_roots,
                             const Transforms* transforms, const Noise& noise, Way way,
                             kvevict::Report* report = nullptr) {
  const MatrixBatchView<const float> matrices =
      transforms != nullptr ? transforms->view() : MatrixBatchView<const float>{};
  const std::int64_t blocks = gram_roots.layout.heads();
  const std::int64_t dim = rows.dim();
  return scores_of(gram_roots.layout, [&](auto& res, auto scores) {
    if (way == Way::at_once) {
      capacity_scores(res, rows.view(), gram_roots.view(), matrices, noise, score_roots.view(),
                      scores);
    } else {
      std::vector<double> grams(static_cast<std::size_t>(blocks * dim * dim));
      std::vector<float> factors(grams.size(), -1.0f);
      const auto gram = MatrixBatchView<double>::packed(grams.data(), blocks, dim, dim);
      const auto factor = MatrixBatchView<float>::packed(factors.data(), blocks, dim, dim);
      weighted_gram(res, rows.view(), gram_roots.view(), gram);
      inverse_factor(res, MatrixBatchView<const double>(gram), matrices, noise, factor);
      leverage_scores(res, rows.view(), MatrixBatchView<const float>(factor), score_roots.view(),
                      scores);
    }
    if (report != nullptr) *report = res.report();
  });
}

constexpr Noise noises[] = {Noise::relative(0.1), Noise::absolute(1.0), Noise::absolute(0.01)};

}  // namespace

TEMPLATE_TEST_CASE("leverages agree with a solve in double", "[ops][capacity]", float, half,
                   bfloat16) {
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        for (const bool with_transforms : {false, true}) {
          constexpr std::int64_t group = 2;
          const Roots gram_roots(rows.layout(), group, 4);
          const Roots score_roots(rows.layout(), group, 5);
          const Transforms transforms(rows.heads() * group, rows.dim(), 6);
          const Transforms* given = with_transforms ? &transforms : nullptr;
          const Noise& noise = noises[with_transforms ? 1 : 0];
          const std::vector<double> want =
              expected_leverages(rows, gram_roots, score_roots, given, noise);
          for (const Way way : {Way::steps, Way::at_once}) {
            INFO(rows.describe() << ", transforms " << with_transforms << ", at once "
                                 << (way == Way::at_once));
            require_close(leverages(rows, gram_roots, score_roots, given, noise, way), want,
                          tolerance::float32_solve);
          }
        }
      },
      {1, 2, 17, 64});
}

TEST_CASE("leverages with every kind of noise", "[ops][capacity]") {
  const RowsCase<float> rows(RowsForm::packed, {5, 90, 300}, 24, 3);
  const Roots roots(rows.layout(), 1, 4);
  for (const Noise& noise : noises) {
    const std::vector<double> want = expected_leverages(rows, roots, roots, nullptr, noise);
    for (const Way way : {Way::steps, Way::at_once}) {
      require_close(leverages(rows, roots, roots, nullptr, noise, way), want,
                    tolerance::float32_solve);
    }
  }
}

TEST_CASE("leverages sum to d minus s2 times the trace of the inverse", "[ops][capacity]") {
  const RowsCase<float> rows(RowsForm::head_first, {200}, 12, 3);
  const Roots roots(rows.layout(), 1, 4);
  for (const double s2 : {0.01, 1.0, 100.0}) {
    const std::vector<float> got =
        leverages(rows, roots, roots, nullptr, Noise::absolute(s2), Way::at_once);
    const std::vector<double> w = roots.weights(0);
    reference::Matrix a = reference::identity(12);
    for (std::size_t r = 0; r < 12; ++r) {
      for (std::size_t c = 0; c < 12; ++c) {
        a(r, c) *= s2;
        for (std::size_t i = 0; i < 200; ++i) {
          a(r, c) += w[i] * rows.exact()[0](i, r) * rows.exact()[0](i, c);
        }
      }
    }
    const reference::LinearSystem system(a);
    double trace = 0;
    for (std::size_t r = 0; r < 12; ++r) {
      std::vector<double> unit(12, 0.0);
      unit[r] = 1;
      trace += system.solve(unit)[r];
    }
    REQUIRE(std::accumulate(got.begin(), got.end(), 0.0) == Approx(12 - s2 * trace).epsilon(1e-5));
    for (const float r : got) REQUIRE((r >= 0.0f && r < 1.0f));
  }
}

TEST_CASE("condition numbers up to 1e6 cost no more than 1e-4", "[ops][capacity]") {
  // Rows along rotated axes whose lengths fall geometrically: the matrix s2 I + V^T V has the
  // condition number `condition`, its smallest directions are those of the noise.
  for (const std::int64_t dim : {16, 64, 128}) {
    for (const double condition : {1e2, 1e4, 1e6}) {
      RowsCase<float> rows(RowsForm::head_first, {3 * dim}, dim, 7);
      const std::vector<float> mixing = random_values(Shape::normal, dim * dim, 8);
      const std::vector<float> draws = random_values(Shape::normal, 3 * dim * dim, 9);
      rows.fill([&](std::int64_t) {
        std::vector<float> values(static_cast<std::size_t>(3 * dim * dim));
        for (std::int64_t i = 0; i < 3 * dim; ++i) {
          for (std::int64_t c = 0; c < dim; ++c) {
            double sum = 0;
            for (std::int64_t a = 0; a < dim; ++a) {
              const double length =
                  std::pow(condition, -0.5 * static_cast<double>(a) / static_cast<double>(dim - 1));
              sum += length * draws[static_cast<std::size_t>(i * dim + a)] *
                     mixing[static_cast<std::size_t>(a * dim + c)] / static_cast<double>(dim);
            }
            values[static_cast<std::size_t>(i * dim + c)] = static_cast<float>(sum);
          }
        }
        return values;
      });
      Roots roots(rows.layout(), 1, 4);
      // Noise at the level that makes trace / s2, which bounds the condition number, `condition`.
      const Noise noise = Noise::relative(static_cast<double>(dim) / condition);
      const std::vector<double> want = expected_leverages(rows, roots, roots, nullptr, noise);
      const std::vector<float> got = leverages(rows, roots, roots, nullptr, noise, Way::at_once);
      INFO("dim " << dim << ", condition " << condition << ": "
                  << compare(got, want, tolerance::float32_solve).describe());
      require_close(got, want, tolerance::float32_solve);
    }
  }
}

TEST_CASE("scores may be written over the roots", "[ops][capacity]") {
  const RowsCase<float> rows(RowsForm::packed, {40, 130}, 8, 3);
  const Roots roots(rows.layout(), 2, 4);
  const std::vector<float> apart =
      leverages(rows, roots, roots, nullptr, Noise::relative(0.1), Way::at_once);
  const std::vector<float> in_place = scores_of(
      roots.layout,
      [&](auto& res, auto scores) {
        capacity_scores(res, rows.view(), scores, MatrixBatchView<const float>{},
                        Noise::relative(0.1), scores, scores);
      },
      roots.data);
  REQUIRE(same_bits(in_place, apart));
}

TEST_CASE("capacity refuses what does not fit", "[ops][capacity]") {
  const RowsCase<float> rows(RowsForm::packed, {3, 5}, 4, 1);
  Roots roots(rows.layout(), 1, 5);
  Roots twice(rows.layout(), 2, 5);
  std::vector<float> out(200);
  TestResources res({.threads = 1});
  const auto problem = [&](Roots& gram, Roots& leverage, const kvevict::RowLayout<>& scores,
                           const MatrixBatchView<const float>& transforms, const Noise& noise) {
    return refused([&] {
      capacity_scores(res, rows.view(), gram.view(), transforms, noise, leverage.view(),
                      kvevict::ScoreView<>{out.data(), scores});
    });
  };
  const Noise fine = Noise::relative(0.1);
  const MatrixBatchView<const float> none;
  const std::string shape = " is of another shape, must be one score for each row of each head";
  REQUIRE(problem(twice, roots, roots.layout, none, fine) == "gram_roots" + shape);
  REQUIRE(problem(roots, twice, roots.layout, none, fine) == "leverage_roots" + shape);
  REQUIRE(problem(roots, roots, twice.layout, none, fine) == "gram_roots" + shape);
  REQUIRE(problem(roots, roots, roots.layout, none, Noise::relative(0)) ==
          "noise is 0, must be finite and > 0");
  REQUIRE(problem(roots, roots, roots.layout, none, Noise::absolute(-1)) ==
          "noise is -1, must be finite and > 0");
  REQUIRE(problem(roots, roots, roots.layout, none, Noise::absolute(std::nan(""))) ==
          "noise is nan, must be finite and > 0");
  REQUIRE(problem(roots, roots, roots.layout, Transforms(3, 4, 1).view(), fine) ==
          "output_projection.heads is 3, must be equal to 2");
  REQUIRE(problem(roots, roots, roots.layout, Transforms(2, 5, 1).view(), fine) ==
          "output_projection.dim is 5, must be equal to the dimension of the rows, 4");
}

TEST_CASE("many small rows count beside one that outweighs them", "[ops][capacity]") {
  // The sink of attention: each of the others, which are alike, adds less to a sum than half a unit
  // in the last place of what is there; together they are far above the noise.
  for (const std::int64_t dim : {64, 128, 192}) {
    RowsCase<float> rows(RowsForm::head_first, {256}, dim, 7);
    const std::vector<float> common = random_values(Shape::normal, dim, 8);
    const std::vector<float> draws = random_values(Shape::normal, 256 * dim, 9);
    rows.fill([&](std::int64_t) {
      std::vector<float> values = draws;
      for (std::size_t i = static_cast<std::size_t>(dim); i < values.size(); ++i) {
        values[i] = common[i % static_cast<std::size_t>(dim)] + 0.1f * values[i];
      }
      return values;
    });
    Roots roots(rows.layout(), 1, 4);
    std::fill(roots.data.begin(), roots.data.end(), 1.5e-4f);
    roots.data[0] = 1.0f;
    for (const double noise : {0.01, 0.1}) {
      INFO("dim " << dim << ", noise " << noise);
      const std::vector<double> want =
          expected_leverages(rows, roots, roots, nullptr, Noise::relative(noise));
      // Scores are small: only the promised relative error counts.
      require_close(leverages(rows, roots, roots, nullptr, Noise::relative(noise), Way::at_once),
                    want, Tolerance{1e-4, 1e-12});
    }
  }
}

}  // namespace capacity_test
