// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/centred_leverage.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/centred_leverage.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "reference/linear.hpp"
#include "support/backend.hpp"

namespace centred_leverage_test {

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::MatrixBatchView;
using kvevict::MatrixView;
using kvevict::Noise;
using kvevict::RowRange;
using kvevict::RowsView;

namespace {

// The promise of fp32 factors behind a double factorisation.
constexpr Tolerance leverage_tolerance{1e-4, 1e-6};

std::vector<double> leverages(const reference::Matrix& rows, const RowRange& range, Noise noise) {
  const auto count = static_cast<std::int64_t>(rows.rows);
  const auto first = static_cast<std::size_t>(range.begin(count));
  const auto end = static_cast<std::size_t>(range.end(count));
  std::vector<double> out(rows.rows, 0.0);
  if (first == end) return out;
  reference::Matrix centred(end - first, rows.cols);
  for (std::size_t c = 0; c < rows.cols; ++c) {
    double mean = 0;
    for (std::size_t i = first; i < end; ++i) mean += rows(i, c);
    mean /= static_cast<double>(end - first);
    for (std::size_t i = first; i < end; ++i) centred(i - first, c) = rows(i, c) - mean;
  }
  reference::Matrix gram = reference::product(reference::transposed(centred), centred);
  const double trace = reference::trace(gram);
  if (trace == 0) return out;
  const double s2 = noise.kind == Noise::Kind::absolute
                        ? noise.value
                        : noise.value * trace / static_cast<double>(rows.cols);
  for (std::size_t c = 0; c < rows.cols; ++c) gram(c, c) += s2;
  const reference::LinearSystem system(gram);
  for (std::size_t i = 0; i < centred.rows; ++i) {
    const double* row = &centred.data[i * rows.cols];
    out[first + i] = reference::dot(row, system.solve({row, row + rows.cols}).data(), rows.cols);
  }
  return out;
}

template <class T>
std::vector<float> library(const RowsView<const T>& rows, const RowRange& range, Noise noise,
                           const MatrixBatchView<const float>& transforms = {}) {
  return scores_of(rows.layout(), [&](auto& res, auto scores) {
    centred_leverage(res, rows, transforms, range, noise, scores);
  });
}

}  // namespace

TEMPLATE_TEST_CASE("leverages of centred rows agree with a double solve", "[ops][centred_leverage]",
                   float, half, bfloat16) {
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        for (const RowRange& range : {RowRange{}, RowRange{5, 3}}) {
          for (const Noise noise : {Noise::absolute(0.01), Noise::relative(0.1)}) {
            std::vector<double> want;
            for (const reference::Matrix& head : rows.exact()) {
              const std::vector<double> of_head = leverages(head, range, noise);
              want.insert(want.end(), of_head.begin(), of_head.end());
            }
            INFO(rows.describe() << ", skipping " << range.skip_first);
            require_close(library(rows.view(), range, noise), want, leverage_tolerance);
          }
        }
      },
      {1, 2, 17, 64, 130});
}

TEST_CASE("more than one split of rows, and a range that ends in another one",
          "[ops][centred_leverage]") {
  for (const std::int64_t count : {2048, 2052, 4300}) {
    const RowsCase<float> rows(RowsForm::head_first, {count}, 9, 4);
    for (const RowRange& range : {RowRange{}, RowRange{3, 2}}) {
      require_close(library(rows.view(), range, Noise::absolute(0.01)),
                    leverages(rows.exact()[0], range, Noise::absolute(0.01)), leverage_tolerance);
    }
  }
}

TEST_CASE("a common part of all rows changes no leverage", "[ops][centred_leverage]") {
  RowsCase<float> rows(RowsForm::head_first, {200}, 16, 5);
  const std::vector<double> want = leverages(rows.exact()[0], {}, Noise::absolute(0.01));
  // Multiples of 2^-10, so that the shifted rows are exact.
  std::vector<float> shifted;
  for (const double x : rows.exact()[0].data) {
    shifted.push_back(static_cast<float>(std::round(x * 1024) / 1024 + 100.0));
  }
  const auto view = RowsView<const float>::strided(shifted.data(), 1, 200, 16, 3200, 16);
  reference::Matrix exact(200, 16);
  std::copy(shifted.begin(), shifted.end(), exact.data.begin());
  require_close(library(view, {}, Noise::absolute(0.01)),
                leverages(exact, {}, Noise::absolute(0.01)), leverage_tolerance);
  // Rounding to 2^-10 aside, it is the leverage of the rows without the common part.
  require_close(library(view, {}, Noise::absolute(0.01)), want, {0.02, 0.02});
}

TEST_CASE("leverages sum to the rank that noise leaves", "[ops][centred_leverage]") {
  const RowsCase<float> rows(RowsForm::head_first, {300}, 12, 6);
  const std::vector<float> got = library(rows.view(), {}, Noise::absolute(1e-4));
  REQUIRE(std::accumulate(got.begin(), got.end(), 0.0) == Approx(12).epsilon(1e-4));
  for (const float leverage : got) REQUIRE((leverage >= 0.0f && leverage < 1.0f));
}

TEST_CASE("rows that are all the same have no leverage and are counted",
          "[ops][centred_leverage]") {
  const std::vector<float> rows(40, 3.25f);
  const auto view = RowsView<const float>::strided(rows.data(), 2, 5, 4, 20, 4);
  TestResources res({.threads = 1});
  std::vector<float> scores(10, 7.0f);
  centred_leverage(res, view, MatrixBatchView<const float>{}, RowRange{}, Noise::absolute(0.01),
                   kvevict::ScoreView<>{scores.data(), view.layout()});
  REQUIRE(scores == std::vector<float>(10, 0.0f));
  REQUIRE(res.report().zero_capacity_heads == 2);
}

TEST_CASE("a transform of fewer rows is a sketch", "[ops][centred_leverage]") {
  const RowsCase<float> rows(RowsForm::head_first, {90, 90}, 8, 7);
  std::vector<float> sketch(64);
  TestResources res({.threads = 1});
  gaussian_sketch(res, 11, 3, MatrixView<float>::packed(sketch.data(), 8, 8));
  for (std::size_t i = 24; i < 64; ++i) REQUIRE(sketch[i] == 0.0f);
  // The same for both heads.
  auto transforms = MatrixBatchView<const float>::packed(sketch.data(), 2, 8, 8);
  transforms.stride[0] = 0;
  std::vector<double> want;
  for (const reference::Matrix& head : rows.exact()) {
    reference::Matrix matrix(8, 3);
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t c = 0; c < 8; ++c) {
        matrix(c, r) = static_cast<double>(sketch[r * 8 + c]);
      }
    }
    const std::vector<double> of_head =
        leverages(reference::product(head, matrix), {}, Noise::absolute(0.01));
    want.insert(want.end(), of_head.begin(), of_head.end());
  }
  require_close(library(rows.view(), {}, Noise::absolute(0.01), transforms), want,
                leverage_tolerance);
}

TEST_CASE("a sketch is normal, scaled by its width, and fixed by its seed",
          "[ops][centred_leverage]") {
  constexpr std::int64_t dim = 128;
  const auto draw = [&](std::uint64_t seed, std::int64_t width) {
    std::vector<float> sketch(dim * dim);
    TestResources res({.threads = 1});
    gaussian_sketch(res, seed, width, MatrixView<float>::packed(sketch.data(), dim, dim));
    return sketch;
  };
  const std::vector<float> sketch = draw(1, dim);
  double sum = 0.0;
  double squares = 0.0;
  double fourths = 0.0;
  for (const float x : sketch) {
    const double z = static_cast<double>(x) * std::sqrt(128.0);
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
  }
  // Five standard errors of the mean of 16384 draws of z, z^2 and z^4.
  REQUIRE(std::abs(sum / 16384) < 5.0 / 128);
  REQUIRE(std::abs(squares / 16384 - 1) < 5 * std::sqrt(2.0) / 128);
  REQUIRE(std::abs(fourths / 16384 - 3) < 5 * std::sqrt(96.0) / 128);
  REQUIRE(draw(1, dim) == sketch);
  REQUIRE(draw(2, dim) != sketch);
  // Of another width only the scale differs.
  const std::vector<float> narrow = draw(1, 32);
  for (std::size_t i = 0; i < 32 * dim; ++i) {
    REQUIRE(narrow[i] == Approx(2 * static_cast<double>(sketch[i])).epsilon(1e-6));
  }
}

TEST_CASE("bad transforms, ranges and sketches are refused", "[ops][centred_leverage]") {
  TestResources res({.threads = 1});
  const RowsCase<float> rows(RowsForm::head_first, {3, 3}, 4, 1);
  std::vector<float> numbers(64);
  const kvevict::ScoreView<> scores{numbers.data(), rows.layout()};
  const auto problem = [&](std::int64_t heads, std::int64_t dim, const RowRange& range,
                           Noise noise) {
    return refused([&] {
      centred_leverage(res, rows.view(),
                       MatrixBatchView<const float>::packed(numbers.data(), heads, dim, dim), range,
                       noise, scores);
    });
  };
  REQUIRE(problem(3, 4, {}, Noise{}) == "transforms.heads is 3, must be equal to 2");
  REQUIRE(problem(2, 3, {}, Noise{}) ==
          "transforms.dim is 3, must be equal to the dimension of the rows, 4");
  REQUIRE(problem(2, 4, {0, -1}, Noise{}) == "skip_last is -1, must be >= 0");
  REQUIRE(problem(2, 4, {}, Noise::absolute(0)) == "noise is 0, must be finite and > 0");
  const auto sketch = MatrixView<float>::packed(numbers.data(), 4, 4);
  REQUIRE(refused([&] { gaussian_sketch(res, 0, 5, sketch); }) ==
          "width is 5, must be in [1, dim], dim = 4");
  REQUIRE(refused([&] { gaussian_sketch(res, 0, 0, sketch); }) ==
          "width is 0, must be in [1, dim], dim = 4");
}

}  // namespace centred_leverage_test
