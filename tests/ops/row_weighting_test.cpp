// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/row_weighting.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/row_weighting.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "reference/linear.hpp"
#include "support/backend.hpp"

namespace row_weighting_test {

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::Epsilon;
using kvevict::half;
using kvevict::MatrixBatchView;
using kvevict::ReductionDomain;
using kvevict::RowLayout;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// A norm of up to 130 squares, of products of up to 130 terms with a transform.
constexpr Tolerance norm_tolerance{66 * 0x1p-24, 0};
constexpr Tolerance transformed_tolerance{2e-5, 1e-6};

// |v| or |R v|.
double length_of(const double* v, std::size_t dim, const float* transform) {
  if (transform == nullptr) return reference::norm(v, dim);
  double squares = 0;
  for (std::size_t r = 0; r < dim; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < dim; ++c) sum += static_cast<double>(transform[r * dim + c]) * v[c];
    squares += sum * sum;
  }
  return std::sqrt(squares);
}

}  // namespace

TEMPLATE_TEST_CASE("scores are weighted by norms", "[ops][row_weighting]", float, half, bfloat16) {
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        constexpr std::int64_t group = 2;
        const auto layout = rows.layout().repeated(group);
        const auto dim = static_cast<std::size_t>(rows.dim());
        const std::vector<float> transforms =
            random_values(Shape::normal, layout.heads() * rows.dim() * rows.dim() + 1, 7);
        std::vector<float> scores = random_values(Shape::uniform, layout.total(), 8);
        for (float& score : scores) score = std::abs(score);
        for (const bool with_transforms : {false, true}) {
          for (const Epsilon& epsilon : {Epsilon::absolute(0), Epsilon::per_row(0.5)}) {
            for (const ReductionDomain domain :
                 {ReductionDomain::linear, ReductionDomain::logarithm}) {
              std::vector<double> want;
              std::vector<float> in;
              for (std::int64_t q = 0; q < layout.heads(); ++q) {
                const reference::Matrix& v = rows.exact()[static_cast<std::size_t>(q / group)];
                for (std::size_t i = 0; i < v.rows; ++i) {
                  const double score = scores[static_cast<std::size_t>(layout.offset(q)) + i];
                  const double length = length_of(
                      &v.data[i * dim], dim,
                      with_transforms ? &transforms[static_cast<std::size_t>(q) * dim * dim]
                                      : nullptr);
                  const double weighted =
                      (score + epsilon.of(static_cast<std::int64_t>(v.rows))) * length;
                  const bool logarithm = domain == ReductionDomain::logarithm;
                  in.push_back(static_cast<float>(logarithm ? std::log(score) : score));
                  want.push_back(logarithm ? std::log(weighted) : weighted);
                }
              }
              INFO(rows.describe() << ", transforms " << with_transforms << ", logarithm "
                                   << (domain == ReductionDomain::logarithm));
              const std::vector<float> got = scores_of(
                  layout,
                  [&](auto& res, auto out) {
                    weight_by_norm(res, rows.view(),
                                   with_transforms
                                       ? MatrixBatchView<const float>::packed(
                                             transforms.data(), layout.heads(), dim, dim)
                                       : MatrixBatchView<const float>{},
                                   epsilon, domain, out);
                  },
                  in);
              // The logarithm of a score is rounded on its way in.
              const Tolerance allowed = domain == ReductionDomain::logarithm ? Tolerance{2e-5, 1e-5}
                                        : with_transforms                    ? transformed_tolerance
                                                                             : norm_tolerance;
              require_close(got, want, allowed);
            }
          }
        }
      },
      {1, 17, 64});
}

TEST_CASE("an epsilon is absolute or in units of a uniform weight", "[ops][row_weighting]") {
  REQUIRE(Epsilon::absolute(0.01).of(500) == 0.01);
  REQUIRE(Epsilon::per_row(2).of(500) == 0.004);
  REQUIRE(Epsilon::per_row(2).of(0) == 2);
}

TEST_CASE("logarithms keep the order of weights that underflow", "[ops][row_weighting]") {
  RowsCase<float> rows(RowsForm::head_first, {4}, 2, 1);
  rows.fill([](std::int64_t) { return std::vector<float>{1, 0, 2, 0, 0, 0, 3, 4}; });
  const auto run = [&](const Epsilon& epsilon) {
    return scores_of(rows.layout(),
                     [&](auto& res, auto scores) {
                       weight_by_norm(res, rows.view(), MatrixBatchView<const float>{}, epsilon,
                                      ReductionDomain::logarithm, scores);
                     },
                     {-500, -501, 0, -inf});
  };
  const std::vector<float> without = run(Epsilon::absolute(0));
  REQUIRE(without[0] == -500.0f);
  REQUIRE(without[1] == Approx(-501 + std::log(2.0)));
  REQUIRE(without[2] == -inf);  // a value of length zero
  REQUIRE(without[3] == -inf);  // no weight at all
  const std::vector<float> with = run(Epsilon::absolute(1e-3));
  REQUIRE(with[0] == Approx(std::log(1e-3)));
  REQUIRE(with[3] == Approx(std::log(1e-3) + std::log(5.0)));
}

TEST_CASE("raised rows get the largest score of the others", "[ops][row_weighting]") {
  const auto raised = [](const std::vector<float>& scores, std::int64_t first,
                         std::int64_t from = std::numeric_limits<std::int64_t>::max()) {
    kvevict::RaisedRows<> rows{first, {}};
    if (from != std::numeric_limits<std::int64_t>::max()) {
      rows.from = kvevict::PositionBound<>::at_first(
          kvevict::QueryPositions<>::consecutive(static_cast<std::int32_t>(from)));
    }
    return scores_of(
        RowLayout<>::uniform(1, static_cast<std::int64_t>(scores.size())),
        [&](auto& res, auto out) { raise_rows(res, kvevict::Positions<>(), rows, out); }, scores);
  };
  using V = std::vector<float>;
  const float nan = std::nanf("");
  REQUIRE(raised({9, 9, 1, 3, 2}, 2) == V{3, 3, 1, 3, 2});
  REQUIRE(raised({1, 3, 2, 9, 9}, 0, 3) == V{1, 3, 2, 3, 3});
  REQUIRE(raised({9, 1, 3, 2, 9}, 1, 4) == V{3, 1, 3, 2, 3});
  REQUIRE(raised({-9, -5, -7}, 1) == V{-5, -5, -7});
  REQUIRE(raised({1, 2, 3}, 0) == V{1, 2, 3});
  // No others: all equal, whatever they were.
  REQUIRE(raised({7, 8, 9}, 3) == V{0, 0, 0});
  REQUIRE(raised({7, 8, 9}, 100) == V{0, 0, 0});
  REQUIRE(raised({7, 8, nan}, 0, 0) == V{0, 0, 0});
  REQUIRE(raised({7, 8, 9}, 2, 1) == V{0, 0, 0});
  // NaN is passed over; a raised NaN disappears.
  REQUIRE(raised({nan, nan, 1, 3}, 1)[0] == 3.0f);
  REQUIRE(raised({nan, 2, 1, 3}, 1) == V{3, 2, 1, 3});
  REQUIRE(raised({5, -inf, -inf}, 1)[0] == -inf);
}

TEST_CASE("the last rows are raised, in heads of any length", "[ops][row_weighting]") {
  const std::vector<std::int64_t> offsets = {0, 6, 6, 9, 10};
  const auto raised = [&](const kvevict::RaisedRows<>& rows) {
    return scores_of(
        RowLayout<>::ragged(offsets.data(), 4),
        [&](auto& res, auto out) { raise_rows(res, kvevict::Positions<>(), rows, out); },
        {9, 4, 1, 3, 8, 8, 5, 6, 7, 2});
  };
  using V = std::vector<float>;
  REQUIRE(raised({1, {}, 2}) == V{4, 4, 1, 3, 4, 4, 0, 0, 0, 0});
  REQUIRE(raised({0, {}, 1}) == V{9, 4, 1, 3, 8, 9, 5, 6, 6, 0});
  REQUIRE(raised({0, {}, 100}) == V(10, 0.0f));
  // Whichever begins first, the last rows or a position.
  const auto from = kvevict::PositionBound<>::at_first(kvevict::QueryPositions<>::consecutive(2));
  REQUIRE(raised({0, from, 1}) == V{9, 4, 9, 9, 9, 9, 5, 6, 6, 0});
}

TEST_CASE("rows are raised by position in each head", "[ops][row_weighting]") {
  const std::vector<std::int64_t> offsets = {0, 4, 4, 7};
  const std::vector<std::int32_t> positions = {2, 5, 8, 9, 0, 1, 7};
  const std::int32_t first[] = {8};
  const std::int32_t second[] = {0};
  const std::int32_t third[] = {2};
  const std::int32_t* table[] = {first, second, third};
  const kvevict::RaisedRows<> rows{
      1, kvevict::PositionBound<>::at_first(kvevict::QueryPositions<>::per_head(table))};
  REQUIRE(scores_of(RowLayout<>::ragged(offsets.data(), 3),
                    [&](auto& res, auto out) {
                      raise_rows(res, kvevict::Positions<>::packed(positions.data()), rows, out);
                    },
                    {9, 4, 9, 9, 9, 6, 9}) == std::vector<float>{4, 4, 4, 4, 6, 6, 6});
}

TEST_CASE("exponential root weights agree with a double loop", "[ops][row_weighting]") {
  const std::vector<std::int64_t> offsets = {0, 1, 1, 6, 140};
  const auto layout = RowLayout<>::ragged(offsets.data(), 4);
  const std::vector<float> z = random_values(Shape::normal, layout.total(), 3);
  for (const float scale : {1.0f, 5.0f, 30.0f}) {
    for (const float offset : {0.0f, 1e-6f}) {
      for (const std::int64_t skip_first : {0, 2, 5, 200}) {
        std::vector<double> want;
        for (std::int64_t h = 0; h < 4; ++h) {
          double largest = -1e300;
          for (std::int64_t i = skip_first; i < layout.rows(h); ++i) {
            largest = std::max<double>(largest, z[static_cast<std::size_t>(layout.offset(h) + i)]);
          }
          for (std::int64_t i = 0; i < layout.rows(h); ++i) {
            const double value = z[static_cast<std::size_t>(layout.offset(h) + i)];
            want.push_back(i < skip_first ? 0.0
                                          : std::sqrt(std::exp(static_cast<double>(scale) *
                                                               (value - largest)) +
                                                      static_cast<double>(offset)));
          }
        }
        INFO("scale " << scale << ", offset " << offset << ", skip " << skip_first);
        const auto weigh = [&](bool in_place) {
          std::vector<float> copy = z;
          return scores_of(
              layout,
              [&](auto& res, auto out) {
                const kvevict::ScoreView<> in =
                    in_place ? out : kvevict::ScoreView<>{copy.data(), layout};
                exponential_root_weights(res, in, scale, offset, skip_first, out);
              },
              z);
        };
        // Exponents of up to 100 are rounded to 4e-6; a root below 1e-38 is zero.
        require_close(weigh(false), want, {1e-5, 2e-38});
        REQUIRE(same_bits(weigh(true), weigh(false)));
      }
    }
  }
}

TEST_CASE("root weights reach further down than weights", "[ops][row_weighting]") {
  // exp(-160) is 3e-70: beyond fp32, its root is not.
  const std::vector<float> got = scores_of(
      RowLayout<>::uniform(1, 3),
      [&](auto& res, auto out) { exponential_root_weights(res, out, 1.0f, 0.0f, 0, out); },
      {0, -160, -200});
  REQUIRE(got[0] == 1.0f);
  REQUIRE(got[1] == Approx(std::exp(-80.0)).epsilon(1e-5));
  REQUIRE(got[2] == 0.0f);
}

TEST_CASE("a product of Jacobian and covariance roots", "[ops][row_weighting]") {
  std::vector<float> kappa = {4, 0, -1e-9f, 2, std::nanf("")};
  const auto layout = RowLayout<>::uniform(1, 5);
  const std::vector<float> got =
      scores_of(layout,
                [&](auto& res, auto out) {
                  multiply_by_root(res, kvevict::ScoreView<>{kappa.data(), layout}, out);
                },
                {0.25f, 0.25f, 0.25f, 0.5f, 0.5f});
  REQUIRE(got[0] == 0.5f);
  REQUIRE(got[1] == 0.0f);
  REQUIRE(got[2] == 0.0f);  // a form that rounding made negative
  REQUIRE(got[3] == Approx(0.5 * std::sqrt(2.0)));
  REQUIRE(std::isnan(got[4]));
}

TEST_CASE("weighting refuses what does not fit", "[ops][row_weighting]") {
  const RowsCase<float> rows(RowsForm::packed, {3, 5}, 4, 1);
  TestResources res({.threads = 1});
  std::vector<float> data(400);
  const auto problem = [&](const RowLayout<>& scores, int matrices, int dim, double epsilon) {
    return refused([&] {
      weight_by_norm(res, rows.view(),
                     MatrixBatchView<const float>::packed(data.data(), matrices, dim, dim),
                     Epsilon::absolute(epsilon), ReductionDomain::linear,
                     kvevict::ScoreView<>{data.data(), scores});
    });
  };
  REQUIRE(problem(rows.layout(), 3, 4, 0) == "output_projection.heads is 3, must be equal to 2");
  REQUIRE(problem(rows.layout(), 2, 5, 0) ==
          "output_projection.dim is 5, must be equal to the dimension of the rows, 4");
  REQUIRE(problem(rows.layout(), 2, 4, -1) == "epsilon is -1, must be finite and >= 0");
  REQUIRE(problem(rows.layout(), 2, 4, std::nan("")) == "epsilon is nan, must be finite and >= 0");
  REQUIRE(problem(RowLayout<>::uniform(2, 4), 2, 4, 0) ==
          "scores is of another shape, must be one score for each row of each head");
  const kvevict::ScoreView<> scores{data.data(), rows.layout()};
  const kvevict::ScoreView<> other{data.data(), RowLayout<>::uniform(2, 4)};
  REQUIRE(refused([&] { exponential_root_weights(res, scores, 1.0f, 0.0f, -1, scores); }) ==
          "skip_first is -1, must be >= 0");
  REQUIRE(refused([&] { exponential_root_weights(res, scores, 1.0f, 0.0f, 0, other); }) ==
          "out is of another shape, must be one score for each row of each head");
  REQUIRE(refused([&] { multiply_by_root(res, other, scores); }) ==
          "quadratic is of another shape, must be one score for each row of each head");
}

}  // namespace row_weighting_test
