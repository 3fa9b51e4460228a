// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/lag_scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/lag_scores.hpp"
#include "ops/op_runs.hpp"
#include "ops/rows_case.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::bfloat16;
using kvevict::half;
using kvevict::LagPartitions;
using kvevict::RowLayout;
using kvevict::RowsView;
using kvevict::ScoreView;

namespace {

double deviation(const reference::Matrix& head, std::size_t row, std::size_t first,
                 std::size_t lag) {
  std::vector<double> scaled;
  for (std::size_t c = 0; c < head.cols; ++c) {
    double low = head(first, c);
    double high = low;
    for (std::size_t i = first; i < first + lag; ++i) {
      low = std::min(low, head(i, c));
      high = std::max(high, head(i, c));
    }
    if (high != low) scaled.push_back((head(row, c) - low) / (high - low));
  }
  if (scaled.size() < 2) return 0;
  double mean = 0;
  for (const double u : scaled) mean += u / static_cast<double>(scaled.size());
  double squares = 0;
  for (const double u : scaled) squares += (u - mean) * (u - mean);
  return std::sqrt(squares / static_cast<double>(scaled.size() - 1));
}

template <class T>
std::vector<float> deviations(const RowsView<const T>& rows, const LagPartitions& partitions) {
  return scores_of(rows.layout(),
                   [&](auto& res, auto scores) { lag_deviation(res, rows, partitions, scores); });
}

// Scores from equal deviations of keys and values, of one head.
std::vector<float> scored(std::vector<float> values, const LagPartitions& partitions, bool ranks) {
  const auto layout = RowLayout<>::uniform(1, static_cast<std::int64_t>(values.size()));
  return scores_of(layout, [&](auto& res, auto scores) {
    std::vector<float> keys = values;
    std::vector<float> same = values;
    lag_scores(res, ScoreView<>{keys.data(), layout}, ScoreView<>{same.data(), layout}, partitions,
               ranks, scores);
  });
}

}  // namespace

TEMPLATE_TEST_CASE("deviations agree with a double loop", "[ops][lag_scores]", float, half,
                   bfloat16) {
  for_each_rows_case<TestType>(
      [](const auto& rows) {
        for (const LagPartitions& partitions :
             {LagPartitions{0, 1}, LagPartitions{4, 30}, LagPartitions{2, 64}}) {
          const auto lag = static_cast<std::size_t>(partitions.lag);
          std::vector<double> want;
          for (const reference::Matrix& head : rows.exact()) {
            for (std::size_t i = 0; i < head.rows; ++i) {
              const auto skipped = static_cast<std::size_t>(partitions.skip_first);
              const std::size_t first = i < skipped ? 0 : skipped + (i - skipped) / lag * lag + lag;
              const bool scored = i >= skipped && first + lag <= head.rows;
              want.push_back(scored ? deviation(head, i, first, lag) : 0.0);
            }
          }
          INFO(rows.describe() << ", lag " << lag);
          require_close(deviations(rows.view(), partitions), want, {0x1p-22, 1e-12});
        }
      },
      {1, 2, 17, 64});
}

TEST_CASE("deviations at the ends of the ranges", "[ops][lag_scores]") {
  // Ranges that overflow fp32, and rows so far outside a tiny range that their deviation does.
  const std::vector<float> wide = {3e38f, -3e38f, 0, 3e38f, 3e38f, -3e38f, -3e38f, 3e38f};
  const auto two = RowsView<const float>::strided(wide.data(), 1, 4, 2, 8, 2);
  const std::vector<float> got = deviations(two, {0, 2});
  REQUIRE(got[0] == Approx(std::sqrt(0.5)).epsilon(1e-6));
  REQUIRE(got[1] == Approx(0.5 * std::sqrt(0.5)).epsilon(1e-6));
  const std::vector<float> tiny = {3e38f, -3e38f, 0, 0, 1e-44f, 0, 0, 1e-44f};
  REQUIRE(deviations(RowsView<const float>::strided(tiny.data(), 1, 4, 2, 8, 2), {0, 2})[0] ==
          std::numeric_limits<float>::max());
}

TEST_CASE("NaN makes its partition and the one before it NaN", "[ops][lag_scores]") {
  std::vector<float> values(12 * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 17);
  values[static_cast<std::size_t>(7 * 3 + 1)] = std::nanf("");
  const auto rows = RowsView<const float>::strided(values.data(), 1, 12, 3, 36, 3);
  const std::vector<float> got = deviations(rows, {0, 3});
  for (std::size_t i = 0; i < 12; ++i) REQUIRE(std::isnan(got[i]) == (i == 7 || (i > 2 && i < 6)));
  const std::vector<float> scores = scored(got, {0, 3}, true);
  // Partitions 1 and 2 have no scores, the tail has the largest of partition 0.
  REQUIRE(std::count_if(scores.begin(), scores.end(), [](float s) { return std::isnan(s); }) == 6);
  REQUIRE(scores[11] == *std::max_element(scores.begin(), scores.begin() + 3));
}

TEST_CASE("scores are softmaxes or ranks within a partition", "[ops][lag_scores]") {
  const std::vector<float> values = {9, 9, 0, 1, 0, 2, 2, 0, 5, 5, 5};
  const std::vector<float> soft = scored(values, {2, 3}, false);
  const double e = std::exp(1.0);
  const double ee = std::exp(2.0);
  const double most = ee / (2 * ee + 1);
  require_close(
      soft,
      std::vector<double>{e / (e + 2), e / (e + 2), 1 / (e + 2), e / (e + 2), 1 / (e + 2), most,
                          most, 1 / (2 * ee + 1), e / (e + 2), e / (e + 2), e / (e + 2)},
      {1e-6, 0});
  // Of equal rows the earlier ranks higher.
  const auto third = [](int rank) { return static_cast<float>(rank / 3.0); };
  REQUIRE(scored(values, {2, 3}, true) == std::vector<float>{third(2), third(2), third(1), third(2),
                                                             third(0), third(2), third(1), third(0),
                                                             third(2), third(2), third(2)});
}

TEST_CASE("heads without partitions are ranked by recency", "[ops][lag_scores]") {
  REQUIRE(scored({0, 0, 0, 0, 0, 0}, {2, 3}, true) ==
          std::vector<float>{0.75f, 0.75f, 0, 0.25f, 0.5f, 0.75f});
  REQUIRE(scored({0, 0}, {2, 3}, true) == std::vector<float>{0, 0});
  REQUIRE(scored({0}, {0, 1}, false) == std::vector<float>{0});
  REQUIRE(scored({}, {0, 1}, false).empty());
}

TEST_CASE("bad partitions are refused", "[ops][lag_scores]") {
  TestResources res({.threads = 1});
  std::vector<float> values(12);
  const auto view = [&](std::int64_t heads, std::int64_t rows) {
    return ScoreView<>{values.data(), RowLayout<>::uniform(heads, rows)};
  };
  REQUIRE(refused([&] {
            lag_scores(res, view(2, 3), view(2, 3), {0, 0}, true, view(2, 3));
          }) == "lag is 0, must be >= 1");
  REQUIRE(refused([&] {
            lag_scores(res, view(2, 3), view(2, 3), {-1, 2}, true, view(2, 3));
          }) == "skip_first is -1, must be >= 0");
  REQUIRE(refused([&] {
            lag_scores(res, view(2, 3), view(2, 2), {0, 2}, true, view(2, 3));
          }) == "values is of another shape, must be one score for each row of each head");
}
