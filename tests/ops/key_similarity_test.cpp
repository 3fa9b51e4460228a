// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/key_similarity.hpp"

#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/key_similarity.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "reference/policies.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::RowsView;

namespace {

// A mean of cosines: sums of up to 130 products of numbers that are at most one.
constexpr Tolerance cosine_tolerance{0, 200 * 0x1p-24};

template <class T>
std::vector<float> similarity(const RowsView<const T>& rows, float threshold) {
  return scores_of(rows.layout(),
                   [&](auto& res, auto scores) { mean_similarity(res, rows, threshold, scores); });
}

std::vector<float> similarity(const std::vector<float>& rows, std::int64_t dim, float threshold) {
  const auto count = static_cast<std::int64_t>(rows.size()) / dim;
  return similarity(RowsView<const float>::strided(rows.data(), 1, count, dim, count * dim, dim),
                    threshold);
}

}  // namespace

TEMPLATE_TEST_CASE("mean similarities agree with a double loop", "[ops][key_similarity]", float,
                   half, bfloat16) {
  // A threshold that no cosine of these rows is near.
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        for (const float threshold : {0.45671f, -0.21347f, 1.0f}) {
          std::vector<double> want;
          for (const reference::Matrix& head : rows.exact()) {
            const std::vector<double> of_head =
                reference::mean_similarity(head, static_cast<double>(threshold));
            want.insert(want.end(), of_head.begin(), of_head.end());
          }
          INFO(rows.describe() << ", threshold " << threshold);
          require_close(similarity(rows.view(), threshold), want, cosine_tolerance);
        }
      },
      {2, 17, 64, 130});
}

TEST_CASE("the latest similar row is exempt, no other", "[ops][key_similarity]") {
  // Rows 0, 2 and 4 are parallel, 1 and 3 at right angles to them and to each other.
  const std::vector<float> rows = {1, 0, 0, 0, 2, 0, 3, 0, 0, 0, 0, 1, 5, 0, 0};
  const std::vector<float> got = similarity(rows, 3, 0.5f);
  // For 0 and 2 it is 4, for 4 it is 2.
  const std::vector<double> want = {2.0 / 5, 0, 1.0 / 5, 0, 0};
  for (std::size_t i = 0; i < 5; ++i) REQUIRE(got[i] == Approx(want[i]).margin(1e-6));
}

TEST_CASE("the length of a row does not matter, a row of length zero is like none",
          "[ops][key_similarity]") {
  const std::vector<float> rows = {1, 2, 2, 1, -1, 3, 0.5f, 1.5f, 2, 2, 1, -1};
  std::vector<float> scaled = rows;
  for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] *= i % 4 < 2 ? 0x1p100f : 0x1p-100f;
  const std::vector<float> want = similarity(rows, 2, 0.3f);
  const std::vector<float> got = similarity(scaled, 2, 0.3f);
  for (std::size_t i = 0; i < 6; ++i) REQUIRE(got[i] == Approx(want[i]).margin(1e-6));
  const std::vector<float> with_zero = similarity({1, 0, 0, 0, 1, 0}, 2, 0.5f);
  REQUIRE(with_zero[1] == 0.0f);
  REQUIRE(similarity({4, 4}, 2, 0.5f)[0] == Approx(0).margin(1e-6));
}

TEST_CASE("NaN makes its head NaN", "[ops][key_similarity]") {
  const std::vector<float> rows = {1, std::nanf(""), 1, 1, 1, 0, 0, 1};
  const std::vector<float> got =
      similarity(RowsView<const float>::strided(rows.data(), 2, 2, 2, 4, 2), 0.5f);
  REQUIRE((std::isnan(got[0]) && std::isnan(got[1])));
  REQUIRE((got[2] == 0.0f && got[3] == 0.0f));
}

TEST_CASE("bad thresholds are refused", "[ops][key_similarity]") {
  TestResources res({.threads = 1});
  const RowsCase<float> rows(RowsForm::head_first, {3}, 4, 1);
  std::vector<float> scores(3);
  for (const float threshold : {1.5f, -1.5f}) {
    REQUIRE(refused([&] {
              mean_similarity(res, rows.view(), threshold,
                              kvevict::ScoreView<>{scores.data(), rows.layout()});
            }) == std::string("threshold is ") + (threshold > 0 ? "1.5" : "-1.5") +
                      ", must be in [-1, 1]");
  }
}
