// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/key_direction.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/key_direction.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "reference/linear.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::MatrixView;

namespace {

// Elements of unit vectors, each divided by a norm with up to 66 roundings.
constexpr Tolerance unit_tolerance{0, 70 * 0x1p-24};

std::vector<double> mean_of_units(const reference::Matrix& head) {
  std::vector<double> mean(head.cols, 0.0);
  for (std::size_t i = 0; i < head.rows; ++i) {
    const double norm = reference::norm(&head.data[i * head.cols], head.cols);
    for (std::size_t c = 0; c < head.cols; ++c) {
      if (norm != 0.0) mean[c] += head(i, c) / norm / static_cast<double>(head.rows);
    }
  }
  return mean;
}

template <class T>
std::vector<float> directions_of(const kvevict::RowsView<const T>& rows) {
  // Scores of a layout of `dim` rows per head serve as the matrix [head][dim].
  return scores_of(
      kvevict::RowLayout<>::uniform(rows.heads(), rows.dim()), [&](auto& res, auto scores) {
        mean_direction(res, rows, MatrixView<float>::packed(scores.data, rows.heads(), rows.dim()));
      });
}

template <class T>
std::vector<float> one_direction(std::vector<T> rows, std::int64_t dim) {
  const auto count = static_cast<std::int64_t>(rows.size()) / dim;
  return directions_of(
      kvevict::RowsView<const T>::strided(rows.data(), 1, count, dim, count * dim, dim));
}

}  // namespace

TEMPLATE_TEST_CASE("mean directions agree with a double loop", "[ops][key_direction]", float, half,
                   bfloat16) {
  for_each_rows_case<TestType>([](const auto& rows) {
    std::vector<double> want;
    for (const reference::Matrix& head : rows.exact()) {
      const std::vector<double> mean = mean_of_units(head);
      want.insert(want.end(), mean.begin(), mean.end());
    }
    INFO(rows.describe());
    require_close(directions_of(rows.view()), want, unit_tolerance);
  });
}

TEMPLATE_TEST_CASE("cosines agree with a double loop", "[ops][key_direction]", float, half,
                   bfloat16) {
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        for (const std::int64_t group : {1, 3}) {
          const RowsCase<float> directions(RowsForm::head_first, {rows.heads() * group}, rows.dim(),
                                           99);
          std::vector<double> want;
          for (std::int64_t v = 0; v < rows.heads() * group; ++v) {
            const reference::Matrix& head = rows.exact()[static_cast<std::size_t>(v / group)];
            const double* direction =
                &directions.exact()[0].data[static_cast<std::size_t>(v) * head.cols];
            for (std::size_t i = 0; i < head.rows; ++i) {
              const double* row = &head.data[i * head.cols];
              const double norms =
                  reference::norm(row, head.cols) * reference::norm(direction, head.cols);
              want.push_back(norms == 0 ? 0
                                        : -2 * reference::dot(row, direction, head.cols) / norms);
            }
          }
          const auto vectors = MatrixView<const float>::packed(directions.memory().data(),
                                                               rows.heads() * group, rows.dim());
          const std::vector<float> got = scores_of(
              rows.layout().repeated(group),
              [&](auto& res, auto scores) { cosine(res, rows.view(), vectors, -2.0f, scores); });
          INFO(rows.describe() << ", group " << group);
          // A dot product of 130 terms that sum to one at most, by a norm, doubled by the scale.
          require_close(got, want, {0, 2 * 200 * 0x1p-24});
        }
      },
      {1, 2, 17, 64, 130});
}

TEST_CASE("directions of rows at the ends of the ranges", "[ops][key_direction]") {
  const double unit = 1.0 / std::sqrt(8.0);
  for (const float x : one_direction(std::vector<bfloat16>(8, bfloat16(3e38f)), 8)) {
    REQUIRE(x == Approx(unit).epsilon(1e-6));
  }
  for (const float x : one_direction(std::vector<half>(8, half(65504.0f)), 8)) {
    REQUIRE(x == Approx(unit).epsilon(1e-6));
  }
  for (const float x : one_direction(std::vector<float>(8, -1e-44f), 8)) {
    REQUIRE(x == Approx(-unit).epsilon(1e-6));
  }
}

TEST_CASE("zero rows count as zero vectors, heads without rows give zeros",
          "[ops][key_direction]") {
  // (1, 0) and two zero rows: a third of a unit vector.
  REQUIRE(one_direction(std::vector<float>{2, 0, 0, 0, 0, 0}, 2) ==
          std::vector<float>{static_cast<float>(1.0 / 3.0), 0.0f});
  REQUIRE(one_direction(std::vector<float>{}, 3) == std::vector<float>{0, 0, 0});
}

TEST_CASE("cosines of degenerate vectors", "[ops][key_direction]") {
  const std::vector<float> rows = {1, 0, 0, 0, 3e38f, 3e38f, -1e-44f, 0};
  const auto view = kvevict::RowsView<const float>::strided(rows.data(), 1, 4, 2, 8, 2);
  const auto cosines = [&](std::vector<float> direction, float scale) {
    return scores_of(view.layout(), [&](auto& res, auto scores) {
      cosine(res, view, MatrixView<const float>::packed(direction.data(), 1, 2), scale, scores);
    });
  };
  const std::vector<float> against_first = cosines({1e-30f, 0}, 1.0f);
  REQUIRE(against_first[0] == 1.0f);
  REQUIRE(against_first[1] == 0.0f);
  REQUIRE(against_first[2] == Approx(std::sqrt(0.5)));
  REQUIRE(against_first[3] == -1.0f);
  // A direction of length zero is like nothing.
  for (const float c : cosines({0, 0}, -1.0f)) REQUIRE(c == 0.0f);
  // A huge direction is only a direction.
  REQUIRE(cosines({3e38f, 3e38f}, 1.0f)[2] == Approx(1.0).epsilon(1e-6));
}

TEST_CASE("cosines stay within [-1, 1] times the scale", "[ops][key_direction]") {
  // Parallel vectors of awkward lengths: rounding would exceed one here and there.
  for (std::int64_t dim = 1; dim <= 64; ++dim) {
    if (!case_runs(static_cast<std::uint64_t>(dim))) continue;
    RowsCase<float> rows(RowsForm::head_first, {200}, dim, 3);
    for (std::int64_t i = 0; i < 200; i += 37) {
      const std::vector<float> got = scores_of(rows.layout(), [&](auto& res, auto scores) {
        const auto direction = kvevict::MatrixView<const float>::packed(rows.view().head(0).row(i),
                                                                        std::int64_t{1}, dim);
        cosine(res, rows.view(), direction, 1.0f, scores);
      });
      for (const float c : got) REQUIRE(std::abs(c) <= 1.0f);
      REQUIRE(got[static_cast<std::size_t>(i)] == Approx(1.0).epsilon(1e-6));
    }
  }
}

TEST_CASE("NaN in a row is NaN in its cosine alone", "[ops][key_direction]") {
  const std::vector<float> rows = {1, std::nanf(""), 1, 1};
  const auto view = kvevict::RowsView<const float>::strided(rows.data(), 1, 2, 2, 4, 2);
  const std::vector<float> direction = {1, 1};
  const std::vector<float> got = scores_of(view.layout(), [&](auto& res, auto scores) {
    cosine(res, view, MatrixView<const float>::packed(direction.data(), 1, 2), 1.0f, scores);
  });
  REQUIRE(std::isnan(got[0]));
  REQUIRE(got[1] == Approx(1.0).epsilon(1e-6));
}

TEST_CASE("directions of another shape are refused", "[ops][key_direction]") {
  const RowsCase<float> rows(RowsForm::packed, {3, 5}, 4, 1);
  TestResources res({.threads = 1});
  std::vector<float> out(20);
  const auto matrix = [&](int heads, int dim) {
    return MatrixView<float>::packed(out.data(), heads, dim);
  };
  REQUIRE(refused([&] { mean_direction(res, rows.view(), matrix(2, 5)); }) ==
          "direction.dim is 5, must be equal to the dimension of the rows, 4");
  REQUIRE(refused([&] { mean_direction(res, rows.view(), matrix(3, 4)); }) ==
          "direction.heads is 3, must be equal to 2");
  const kvevict::ScoreView<> scores{out.data(), rows.layout()};
  REQUIRE(refused([&] {
            cosine(res, rows.view(), MatrixView<const float>(matrix(2, 3)), 1.0f, scores);
          }) == "directions.dim is 3, must be equal to the dimension of the rows, 4");
  REQUIRE(refused([&] {
            cosine(res, rows.view(), MatrixView<const float>(matrix(3, 4)), 1.0f, scores);
          }) == "directions.heads is 3, must be a positive multiple of the KV heads, 2");
  REQUIRE(refused([&] {
            cosine(res, rows.view(), MatrixView<const float>(matrix(4, 4)), 1.0f, scores);
          }) == "scores is of another shape, must be one score for each row of each head");
}
