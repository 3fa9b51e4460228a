// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/score_combination.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "ops/op_runs.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace score_combination_test {

using namespace kvevict_test;
using kvevict::Combination;
using kvevict::RowLayout;
using kvevict::ScoreView;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

const std::vector<std::int64_t> offsets = {0, 7, 7, 8, 2100};

RowLayout<> ragged() { return RowLayout<>::ragged(offsets.data(), 4); }

std::vector<float> random_scores(std::uint64_t seed) {
  return random_values(Shape::normal, ragged().total(), seed);
}

std::vector<float> combined(const std::vector<float>& scores, std::vector<float> more, float weight,
                            Combination combination) {
  const auto layout = RowLayout<>::uniform(1, static_cast<std::int64_t>(scores.size()));
  return scores_of(
      layout,
      [&](auto& res, ScoreView<> out) {
        combine_scores(res, ScoreView<>{more.data(), layout}, weight, combination, out);
      },
      scores);
}

}  // namespace

TEST_CASE("rows get the mean of their chunk", "[ops][score_combination]") {
  const auto layout = RowLayout<>::uniform(2, 5);
  const auto means = [&](std::int64_t chunk) {
    return scores_of(layout, [&](auto& res, ScoreView<> out) { chunk_means(res, chunk, out); },
                     {1, 3, 5, 7, 9, 0, 0, 4, not_a_number, 2});
  };
  const std::vector<float> got = means(2);
  REQUIRE(std::vector<float>(got.begin(), got.begin() + 7) ==
          std::vector<float>{2, 2, 6, 6, 9, 0, 0});
  REQUIRE(std::isnan(got[7]));
  REQUIRE(std::isnan(got[8]));
  REQUIRE(got[9] == 2);
  REQUIRE(means(1)[3] == 7);
  REQUIRE(means(5)[0] == 5);
  REQUIRE(means(1000)[4] == 5);
  REQUIRE(refused([&] { means(0); }) == "chunk is 0, must be >= 1");
}

TEST_CASE("means of chunks of ragged heads", "[ops][score_combination]") {
  const std::vector<float> scores = random_scores(1);
  for (const std::int64_t chunk : {1, 3, 20, 128, 4000}) {
    const std::vector<float> got = scores_of(
        ragged(), [&](auto& res, ScoreView<> out) { chunk_means(res, chunk, out); }, scores);
    int wrong = 0;
    for (std::int64_t h = 0; h < 4; ++h) {
      for (std::int64_t i = 0; i < ragged().rows(h); ++i) {
        const std::int64_t first = i / chunk * chunk;
        const std::int64_t last = std::min(first + chunk, ragged().rows(h));
        double sum = 0.0;
        double size = 0.0;
        for (std::int64_t j = first; j < last; ++j) {
          const auto score =
              static_cast<double>(scores[static_cast<std::size_t>(ragged().offset(h) + j)]);
          sum += score;
          size += std::abs(score);
        }
        const double want = sum / static_cast<double>(last - first);
        const double error = std::abs(
            static_cast<double>(got[static_cast<std::size_t>(ragged().offset(h) + i)]) - want);
        // One rounding to fp32 after sums in double.
        wrong += error <= 0x1p-24 * std::abs(want) + 1e-12 * size ? 0 : 1;
      }
    }
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("scores are combined with weighted others", "[ops][score_combination]") {
  REQUIRE(combined({1, 2, 3}, {4, 0, -1}, 2, Combination::sum) == std::vector<float>{9, 2, 1});
  REQUIRE(combined({1, 2, 3}, {4, 0, -1}, 2, Combination::max) == std::vector<float>{8, 2, 3});
  REQUIRE(combined({1, 2, 3}, {4, 0, -1}, 2, Combination::min) == std::vector<float>{1, 0, -2});
  for (const auto combination : {Combination::sum, Combination::max, Combination::min}) {
    const std::vector<float> got =
        combined({not_a_number, 1, 2}, {1, not_a_number, 2}, 1, combination);
    REQUIRE(std::isnan(got[0]));
    REQUIRE(std::isnan(got[1]));
    REQUIRE_FALSE(std::isnan(got[2]));
  }
  REQUIRE(refused([&] { combined({1}, {1}, not_a_number, Combination::sum); }) ==
          "weight is nan, must be finite");
}

TEST_CASE("scores are scaled", "[ops][score_combination]") {
  const std::vector<float> scores = random_scores(2);
  std::vector<float> want = scores;
  for (float& score : want) score *= -2.5f;
  REQUIRE(scores_of(
              ragged(), [](auto& res, ScoreView<> out) { scale_scores(res, -2.5f, out); },
              scores) == want);
}

TEST_CASE("scores are multiplied, from zero or from the lowest", "[ops][score_combination]") {
  const auto layout = RowLayout<>::uniform(2, 3);
  std::vector<float> factors = {1, 2, 3, 1, 10, 100};
  const auto multiplied = [&](bool from_lowest, const std::vector<float>& scores) {
    return scores_of(
        layout,
        [&](auto& res, ScoreView<> out) {
          multiply_scores(res, ScoreView<>{factors.data(), layout}, 0.5, from_lowest, out);
        },
        scores);
  };
  REQUIRE(multiplied(false, {1, 2, 3, -4, -1, 0}) ==
          std::vector<float>{1.5f, 5, 10.5f, -3.5f, -5, 50});
  REQUIRE(multiplied(true, {1, 2, 3, -4, -1, 0}) ==
          std::vector<float>{0.5f, 3, 7.5f, 0.5f, 35, 450});
  const std::vector<float> with_nan =
      multiplied(true, {not_a_number, 2, 3, not_a_number, not_a_number, not_a_number});
  REQUIRE(std::isnan(with_nan[0]));
  REQUIRE(with_nan[1] == 1);
  REQUIRE(std::isnan(with_nan[5]));
}

TEST_CASE("chosen heads get other scores", "[ops][score_combination]") {
  const std::vector<float> scores = random_scores(3);
  std::vector<float> others = random_scores(4);
  const std::vector<std::uint8_t> chosen = {0, 1, 1, 1};
  std::vector<float> want = others;
  std::copy_n(scores.begin(), 7, want.begin());
  REQUIRE(scores_of(
              ragged(),
              [&](auto& res, ScoreView<> out) {
                replace_heads(res, chosen.data(), ScoreView<>{others.data(), ragged()}, out);
              },
              scores) == want);
}

TEST_CASE("scaled and combined scores are a weighted sum", "[ops][score_combination]") {
  const std::vector<std::int64_t> ends = {0, 3, 3, 1100};
  const auto layout = RowLayout<>::ragged(ends.data(), 3);
  std::vector<float> a = random_values(Shape::normal, layout.total(), 1);
  std::vector<float> b = random_values(Shape::normal, layout.total(), 2);
  const std::vector<float> sums = scores_of(
      layout,
      [&](auto& res, ScoreView<> out) {
        scale_scores(res, 0.5f, out);
        combine_scores(res, ScoreView<>{b.data(), layout}, -3.0f, Combination::sum, out);
      },
      a);
  const std::vector<float> products = scores_of(
      layout,
      [&](auto& res, ScoreView<> out) {
        multiply_scores(res, ScoreView<>{a.data(), layout}, 0.0, false, out);
      },
      b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::abs(sums[i] - (0.5f * a[i] - 3.0f * b[i])) <= 1e-6f);
    REQUIRE(products[i] == a[i] * b[i]);
  }
}

TEST_CASE("scores of another shape are refused", "[ops][score_combination]") {
  TestResources res({.threads = 1});
  std::vector<float> values(12);
  const auto view = [&](std::int64_t heads, std::int64_t rows) {
    return ScoreView<>{values.data(), RowLayout<>::uniform(heads, rows)};
  };
  REQUIRE(refused([&] { combine_scores(res, view(2, 4), 1.0f, Combination::sum, view(2, 3)); }) ==
          "more is of another shape, must be one score for each row of each head");
  constexpr float infinity = std::numeric_limits<float>::infinity();
  REQUIRE(refused([&] {
            combine_scores(res, view(2, 3), infinity, Combination::sum, view(2, 3));
          }) == "weight is inf, must be finite");
  REQUIRE(refused([&] { scale_scores(res, infinity, view(2, 3)); }) ==
          "weight is inf, must be finite");
  REQUIRE(refused([&] { multiply_scores(res, view(3, 3), 0.0, false, view(2, 3)); }) ==
          "factors is of another shape, must be one score for each row of each head");
}

}  // namespace score_combination_test
