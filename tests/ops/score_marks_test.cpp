// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/score_marks.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/score_order.hpp"
#include "ops/op_runs.hpp"
#include "reference/selection.hpp"
#include "support/random.hpp"

namespace score_marks_test {

using namespace kvevict_test;
using kvevict::Positions;
using kvevict::Protect;
using kvevict::RowLayout;
using kvevict::ScoreView;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

std::vector<float> lifted(const std::vector<float>& scores, std::vector<float> marks) {
  const auto layout = RowLayout<>::uniform(1, static_cast<std::int64_t>(scores.size()));
  return scores_of(
      layout,
      [&](auto& res, ScoreView<> out) {
        lift_marked(res, ScoreView<>{marks.data(), layout}, out);
      },
      scores);
}

}  // namespace

TEST_CASE("the best part of the rows is marked by rank", "[ops][score_marks]") {
  const auto layout = RowLayout<>::uniform(1, 5);
  const auto marked = [&](double part) {
    return scores_of(layout,
                     [&](auto& res, ScoreView<> out) { mark_best(res, out, part, layout, out); },
                     {0.4f, 1.0f, 0.2f, 0.8f, 0.6f});
  };
  REQUIRE(marked(0.4) == std::vector<float>{0, 1.0f, 0, 0.8f, 0});
  REQUIRE(marked(0.59) == std::vector<float>{0, 1.0f, 0, 0.8f, 0});  // truncated
  REQUIRE(marked(0.0) == std::vector<float>(5, 0.0f));
  REQUIRE(marked(1.0) == std::vector<float>{0.4f, 1.0f, 0.2f, 0.8f, 0.6f});
}

TEST_CASE("as many rows are marked as the part says, however long the head", "[ops][score_marks]") {
  std::uint64_t number = 0;  // long heads first: where few cases run, these do
  for (const std::int64_t rows : {1000, 4099, 1, 2, 3, 7}) {
    const auto layout = RowLayout<>::uniform(1, rows);
    std::vector<float> scores;
    for (std::int64_t i = 0; i < rows; ++i) {
      scores.push_back(static_cast<float>(Random(9).normal(static_cast<std::uint64_t>(i))));
    }
    for (const double part : {0.1, 0.25, 1.0 / 3.0, 0.5, 0.999}) {
      if (!case_runs(++number)) continue;
      const std::vector<float> marks = scores_of(
          layout,
          [&](auto& res, ScoreView<> out) {
            rank_scores(res, out, out);
            mark_best(res, out, part, layout, out);
          },
          scores);
      std::int64_t count = 0;
      for (const float mark : marks) count += mark > 0.0f ? 1 : 0;
      REQUIRE(count == static_cast<std::int64_t>(part * static_cast<double>(rows)));
    }
  }
}

TEST_CASE("a part of what each head is to keep is marked", "[ops][score_marks]") {
  const std::vector<std::int64_t> offsets = {0, 4, 4, 8};
  const std::vector<std::int64_t> kept_offsets = {0, 3, 3, 7};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  const auto of = RowLayout<>::ragged(kept_offsets.data(), 3);
  const std::vector<float> ranks = {0.25f, 1.0f, 0.5f, 0.75f, 1.0f, 0.75f, 0.5f, 0.25f};
  const auto marks = scores_of(
      layout, [&](auto& res, ScoreView<> out) { mark_best(res, out, 0.5, of, out); }, ranks);
  REQUIRE(marks == std::vector<float>{0, 1.0f, 0, 0, 1.0f, 0.75f, 0, 0});
  TestResources res({.threads = 1});
  std::vector<float> memory = ranks;
  const ScoreView<> view{memory.data(), layout};
  REQUIRE(refused([&] {
            mark_best(res, view, 0.5, RowLayout<>::uniform(3, 1), view);
          }).find("is 1, must be") != std::string::npos);
  REQUIRE(memory == ranks);
}

TEST_CASE("protected rows are marked", "[ops][score_marks]") {
  const kvevict::PositionSpan spans[] = {{4, 6}};
  const std::vector<std::int64_t> offsets = {0, 8, 8, 11};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  const auto marked = [&](const Protect& protect) {
    return scores_of(layout, [&](auto& res, ScoreView<> out) {
      mark_protected(res, Positions<>::consecutive(1), protect, out);
    });
  };
  REQUIRE(marked({.sinks = 2, .spans = spans}) ==
          std::vector<float>{1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0});
  REQUIRE(marked({.recent = 2}) == std::vector<float>{0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1});
  REQUIRE(marked({}) == std::vector<float>(11, 0.0f));
  REQUIRE(refused([&] { marked({.sinks = -1}); }) == "protect.sinks is -1, must be >= 0");
}

TEST_CASE("norms below a part of the mean are marked", "[ops][score_marks]") {
  const auto layout = RowLayout<>::uniform(3, 4);
  const auto marked = [&](double threshold) {
    return scores_of(layout,
                     [&](auto& res, ScoreView<> out) { mark_small(res, out, threshold, out); },
                     {1, 5, 5, 5, 0, 0, 0, 0, 1, not_a_number, inf, 1});
  };
  // The first head's mean is 4; equal zeros are not below their mean.
  REQUIRE(marked(0.3) == std::vector<float>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  REQUIRE(marked(0.25) == std::vector<float>(12, 0.0f));
  REQUIRE(marked(0.0) == std::vector<float>(12, 0.0f));
  REQUIRE(refused([&] { marked(-0.5); }) == "threshold is -0.5, must be in [0, 1]");
  REQUIRE(refused([&] { marked(not_a_number); }) == "threshold is nan, must be in [0, 1]");
}

TEST_CASE("marked rows rank before all others, in the order of their marks", "[ops][score_marks]") {
  REQUIRE(lifted({3, 7, -2, 5}, {0, 0, 0.5f, 1.0f}) == std::vector<float>{3, 7, 12, 16});
  REQUIRE(lifted({-3, -7, -9}, {0, 0.5f, 0}) == std::vector<float>{-3, 1.5f, -9});
  REQUIRE(lifted({not_a_number, 7, 1}, {0, 0, 1}).at(2) == 16);
  REQUIRE(lifted({inf, not_a_number, 1}, {0, 1, 0.5f})[1] == inf);
  REQUIRE(lifted({1, 2}, {1, 0.5f}) == std::vector<float>{2, 1.5f});
  REQUIRE(lifted({1, 2}, {0, 0}) == std::vector<float>{1, 2});
}

TEST_CASE("lifted rows stay apart from the others and from each other", "[ops][score_marks]") {
  // Ranks of a long head above scores of every size.
  constexpr std::size_t rows = 3000;
  const Random random(6);
  for (const double scale : {1e-30, 1.0, 1e6, 1e9, 1e30}) {
    std::vector<float> scores;
    std::vector<float> marks;
    for (std::size_t i = 0; i < rows; ++i) {
      scores.push_back(static_cast<float>(scale * random.normal(i)));
      marks.push_back(i % 2 == 0 ? 0.0f
                                 : static_cast<float>(static_cast<double>(i + 1) / (2 * rows)));
    }
    const std::vector<float> got = lifted(scores, marks);
    float largest = 0.0f;
    for (std::size_t i = 0; i < rows; i += 2) largest = std::max(largest, got[i]);
    float before = largest;
    int wrong = 0;
    for (std::size_t i = 1; i < rows; i += 2) {
      wrong += got[i] > before ? 0 : 1;
      before = got[i];
    }
    INFO("scale " << scale);
    REQUIRE(wrong == 0);
  }
}

}  // namespace score_marks_test
