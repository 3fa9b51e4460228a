// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/shared_scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "ops/op_runs.hpp"
#include "support/random.hpp"

using namespace kvevict_test;
using kvevict::GroupReduction;
using kvevict::RowLayout;
using kvevict::ScoreView;

namespace {

std::vector<float> shared(const RowLayout<>& layout, const std::vector<float>& scores,
                          std::int64_t group, GroupReduction reduction) {
  return scores_of(
      layout, [&](auto& res, ScoreView<> out) { share_scores(res, out, group, reduction); },
      scores);
}

}  // namespace

TEST_CASE("all heads of a group get the group's scores", "[ops][shared_scores]") {
  const auto layout = RowLayout<>::uniform(4, 3);
  const std::vector<float> scores = {1, 2, 3, 5, 1, 1, 0, 0, 8, 2, -4, 8};
  REQUIRE(shared(layout, scores, 2, GroupReduction::sum) ==
          std::vector<float>{6, 3, 4, 6, 3, 4, 2, -4, 16, 2, -4, 16});
  REQUIRE(shared(layout, scores, 2, GroupReduction::mean) ==
          std::vector<float>{3, 1.5, 2, 3, 1.5, 2, 1, -2, 8, 1, -2, 8});
  REQUIRE(shared(layout, scores, 4, GroupReduction::max) ==
          std::vector<float>{5, 2, 8, 5, 2, 8, 5, 2, 8, 5, 2, 8});
  REQUIRE(shared(layout, scores, 1, GroupReduction::sum) == scores);
}

TEST_CASE("groups may differ in length", "[ops][shared_scores]") {
  const Random random(4);
  const std::vector<std::int64_t> lengths = {1300, 1300, 1300, 7, 7, 7, 0, 0, 0};
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t rows : lengths) offsets.push_back(offsets.back() + rows);
  const auto layout = RowLayout<>::ragged(offsets.data(), 9);
  std::vector<float> scores;
  for (std::int64_t i = 0; i < layout.total(); ++i) {
    scores.push_back(static_cast<float>(random.normal(static_cast<std::uint64_t>(i))));
  }
  const std::vector<float> got = shared(layout, scores, 3, GroupReduction::mean);
  for (std::int64_t h = 0; h < 9; ++h) {
    int wrong = 0;
    for (std::int64_t i = 0; i < layout.rows(h); ++i) {
      double sum = 0.0;
      for (std::int64_t g = h / 3 * 3; g < h / 3 * 3 + 3; ++g) {
        sum += static_cast<double>(scores[static_cast<std::size_t>(layout.offset(g) + i)]);
      }
      const double error = std::abs(
          static_cast<double>(got[static_cast<std::size_t>(layout.offset(h) + i)]) - sum / 3);
      // One rounding to fp32.
      wrong += error <= std::abs(sum / 3) * 0x1p-24 + 1e-45 ? 0 : 1;
    }
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("NaN of one head is NaN for the group", "[ops][shared_scores]") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float inf = std::numeric_limits<float>::infinity();
  const auto layout = RowLayout<>::uniform(2, 3);
  for (const auto reduction : {GroupReduction::sum, GroupReduction::mean, GroupReduction::max}) {
    const std::vector<float> got = shared(layout, {nan, -inf, 1, 1, -inf, inf}, 2, reduction);
    REQUIRE(std::isnan(got[0]));
    REQUIRE(std::isnan(got[3]));
    REQUIRE(got[1] == -inf);
    REQUIRE(got[5] == inf);
  }
}

TEST_CASE("heads that cannot share scores are refused", "[ops][shared_scores]") {
  TestResources res({.threads = 1});
  std::vector<float> scores(7);
  const std::vector<std::int64_t> offsets = {0, 3, 7};
  const auto problem = [&](const RowLayout<>& layout, std::int64_t group) {
    return refused([&] {
      share_scores(res, ScoreView<>{scores.data(), layout}, group, GroupReduction::sum);
    });
  };
  REQUIRE(problem(RowLayout<>::ragged(offsets.data(), 2), 2) ==
          "rows of head 1 is 4, must be those of the first head of its group, 3");
  REQUIRE(problem(RowLayout<>::uniform(3, 2), 2) ==
          "heads_per_group is 2, must be a divisor of the heads, 3");
  REQUIRE(problem(RowLayout<>::uniform(3, 2), 0) ==
          "heads_per_group is 0, must be a divisor of the heads, 3");
}
