// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/row_norms.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/row_norms.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "reference/linear.hpp"
#include "support/backend.hpp"

namespace row_norms_test {

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;

namespace {

// A norm is a sum of squares of one sign and a root: 130 roundings at most, halved by the root.
constexpr Tolerance norm_tolerance{66 * 0x1p-24, 0};

template <class T>
void check(const RowsCase<T>& rows, float scale) {
  std::vector<double> want;
  for (const reference::Matrix& head : rows.exact()) {
    for (std::size_t i = 0; i < head.rows; ++i) {
      want.push_back(static_cast<double>(scale) *
                     reference::norm(&head.data[i * head.cols], head.cols));
    }
  }
  const std::vector<float> got = scores_of(
      rows.layout(), [&](auto& res, auto scores) { row_norms(res, rows.view(), scale, scores); });
  INFO(rows.describe());
  require_close(got, want, norm_tolerance);
}

template <class T>
std::vector<float> norms_of(std::vector<T> row) {
  const auto dim = static_cast<std::int64_t>(row.size());
  const auto rows = kvevict::RowsView<const T>::strided(row.data(), 1, 1, dim, dim, dim);
  return scores_of(rows.layout(),
                   [&](auto& res, auto scores) { row_norms(res, rows, 1.0f, scores); });
}

}  // namespace

TEMPLATE_TEST_CASE("row norms agree with a double loop", "[ops][row_norms]", float, half,
                   bfloat16) {
  for_each_rows_case<TestType>([](const auto& rows) { check(rows, -1.0f); });
}

TEST_CASE("norms at the ends of the element types' ranges", "[ops][row_norms]") {
  REQUIRE(norms_of(std::vector<half>(128, half(65504.0f)))[0] ==
          Approx(65504.0 * std::sqrt(128.0)));
  REQUIRE(norms_of(std::vector<half>(16, half::from_bits(1)))[0] == Approx(0x1p-22).epsilon(1e-6));
  // Squares of these leave the range of fp32, their norm does not.
  REQUIRE(norms_of(std::vector<bfloat16>(1, bfloat16(3e38f)))[0] ==
          static_cast<float>(bfloat16(3e38f)));
  REQUIRE(norms_of(std::vector<float>{3e20f, 4e20f})[0] == Approx(5e20).epsilon(1e-6));
  REQUIRE(norms_of(std::vector<float>{3e-38f, 4e-38f})[0] == Approx(5e-38).epsilon(1e-6));
  REQUIRE(norms_of(std::vector<float>{3e-21f, 4e-21f, 0.0f})[0] == Approx(5e-21).epsilon(1e-6));
  REQUIRE(norms_of(std::vector<float>(9, 1e-45f))[0] ==
          Approx(3.0 * static_cast<double>(1e-45f)).epsilon(1e-6));
  // A norm beyond fp32 is infinite, and so are those of infinite rows; NaN stays NaN.
  constexpr float inf = std::numeric_limits<float>::infinity();
  REQUIRE(norms_of(std::vector<float>{3e38f, 3e38f})[0] == inf);
  REQUIRE(norms_of(std::vector<half>{half(-inf), half(1.0f)})[0] == inf);
  REQUIRE(std::isnan(norms_of(std::vector<float>{1.0f, std::nanf("")})[0]));
  REQUIRE(norms_of(std::vector<float>(5, 0.0f))[0] == 0.0f);
}

TEST_CASE("row norms refuse scores of another shape", "[ops][row_norms]") {
  const RowsCase<float> rows(RowsForm::packed, {3, 5}, 4, 1);
  TestResources res({.threads = 1});
  std::vector<float> out(20);
  REQUIRE(refused([&] {
            row_norms(res, rows.view(), 1.0f,
                      kvevict::ScoreView<>{out.data(), kvevict::RowLayout<>::uniform(2, 4)});
          }) == "scores is of another shape, must be one score for each row of each head");
  REQUIRE(refused([&] {
            row_norms(res, rows.view(), 1.0f, kvevict::ScoreView<>{nullptr, rows.layout()});
          }) == "scores is null, must be a pointer to scores");
}

TEST_CASE("norms that are known give the scores that the rows give", "[ops][row_norms]") {
  for_each_rows_case<half>([](const auto& rows) {
    const auto run = [&](float scale) {
      return scores_of(rows.layout(),
                       [&](auto& res, auto scores) { row_norms(res, rows.view(), scale, scores); });
    };
    const std::vector<float> norms = run(1.0f);
    INFO(rows.describe());
    REQUIRE(same_bits(
        scores_of(
            rows.layout(),
            [&](auto& res, auto scores) {
              scale_norms(res, kvevict::KeyNorms<>{norms.data(), rows.layout()}, -1.0f, scores);
            }),
        run(-1.0f)));
  });
  const float norms[4] = {};
  float scores[5] = {};
  TestResources res({.threads = 1});
  CHECK(refused([&] {
          scale_norms(res, kvevict::KeyNorms<>{norms, kvevict::RowLayout<>::uniform(1, 4)}, 1.0f,
                      kvevict::ScoreView<>{scores, kvevict::RowLayout<>::uniform(1, 5)});
        }) == "key_norms.rows is different, must be one norm for each row of each head");
}

}  // namespace row_norms_test
