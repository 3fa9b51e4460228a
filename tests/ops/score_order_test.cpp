// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/score_order.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "ops/op_runs.hpp"
#include "reference/selection.hpp"
#include "support/random.hpp"

namespace score_order_test {

using namespace kvevict_test;
using kvevict::Positions;
using kvevict::Protect;
using kvevict::RowLayout;
using kvevict::ScoreView;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

struct Heads {
  std::vector<std::int64_t> offsets = {0};
  std::vector<float> scores;

  void add(const std::vector<float>& head) {
    scores.insert(scores.end(), head.begin(), head.end());
    offsets.push_back(static_cast<std::int64_t>(scores.size()));
  }
  RowLayout<> layout() const {
    return RowLayout<>::ragged(offsets.data(), static_cast<std::int64_t>(offsets.size()) - 1);
  }
  std::vector<double> head(std::size_t h) const {
    return {scores.begin() + offsets[h], scores.begin() + offsets[h + 1]};
  }
};

std::vector<float> ranks_of(Heads& heads) {
  return scores_of(heads.layout(), [&](auto& res, ScoreView<> out) {
    rank_scores(res, ScoreView<>{heads.scores.data(), heads.layout()}, out);
  });
}

std::vector<float> masses_of(Heads& heads, const Protect& protect = {}) {
  return scores_of(heads.layout(), [&](auto& res, ScoreView<> out) {
    remaining_mass(res, ScoreView<>{heads.scores.data(), heads.layout()},
                   Positions<>::consecutive(), protect, out);
  });
}

// Ragged heads with ties, NaN, infinities and zeros, long enough for several tiles of a sort.
Heads difficult_heads() {
  const Random random(3);
  std::uint64_t at = 0;
  Heads heads;
  for (const std::int64_t rows : {1, 0, 2, 31, 1024, 1025, for_backend(9000, 2500)}) {
    std::vector<float> head;
    for (std::int64_t i = 0; i < rows; ++i) {
      constexpr float special[] = {not_a_number, inf, -inf, 0.0f, -0.0f, 3.0f};
      head.push_back(random.integer(at++, 20) == 0
                         ? special[random.integer(at++, 6)]
                         : static_cast<float>(random.integer(at++, 50)) - 10.0f);
    }
    heads.add(head);
  }
  return heads;
}

}  // namespace

TEST_CASE("ranks follow the order of selection", "[ops][score_order]") {
  Heads heads;
  heads.add({1, 5, not_a_number, 5, -inf, 0.0f, -0.0f, inf});
  const std::vector<float> want = {5 / 8.0f, 7 / 8.0f, 1 / 8.0f, 6 / 8.0f,
                                   2 / 8.0f, 4 / 8.0f, 3 / 8.0f, 1.0f};
  REQUIRE(ranks_of(heads) == want);
}

TEST_CASE("ranks of difficult heads agree with the reference's order", "[ops][score_order]") {
  Heads heads = difficult_heads();
  const std::vector<float> got = ranks_of(heads);
  for (std::size_t h = 0; h + 1 < heads.offsets.size(); ++h) {
    const reference::Rows order = reference::selection_order(heads.head(h));
    const auto rows = static_cast<double>(order.size());
    int wrong = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const auto at = static_cast<std::size_t>(heads.offsets[h]) + order[k];
      wrong += got[at] == static_cast<float>((rows - static_cast<double>(k)) / rows) ? 0 : 1;
    }
    INFO("head " << h);
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("ranks may replace the scores", "[ops][score_order]") {
  Heads heads = difficult_heads();
  const std::vector<float> want = ranks_of(heads);
  const std::vector<float> got = scores_of(
      heads.layout(), [&](auto& res, ScoreView<> out) { rank_scores(res, out, out); },
      heads.scores);
  REQUIRE(same_bits(got, want));
}

TEST_CASE("what a head loses when it is cut before a row", "[ops][score_order]") {
  Heads heads;
  heads.add({1, 4, 2, 1});
  REQUIRE(masses_of(heads) == std::vector<float>{0.25f, 1.0f, 0.5f, 0.125f});
  // Protected rows are kept whatever the cut.
  REQUIRE(masses_of(heads, {.recent = 1}) == std::vector<float>{0.125f, 0.875f, 0.375f, 1.0f});
  REQUIRE(masses_of(heads, {.sinks = 2}) == std::vector<float>{1.0f, 1.0f, 0.375f, 0.125f});
}

TEST_CASE("masses that are not", "[ops][score_order]") {
  Heads heads;
  heads.add({-3, not_a_number, 2, 2});
  heads.add({0, 0, 0, -1});
  heads.add({inf, 1, inf, 0});
  heads.add({1e-45f, 3e-45f});
  // Of equal rows the first ranks first; a head of zeros has equal masses.
  REQUIRE(masses_of(heads) == std::vector<float>{0, 0, 1.0f, 0.5f,          //
                                                 1.0f, 0.75f, 0.5f, 0.25f,  //
                                                 1.0f, 0, 0.5f, 0,          //
                                                 1.0f / 3.0f, 1.0f});
}

TEST_CASE("remaining masses of difficult heads agree with sums in double", "[ops][score_order]") {
  Heads heads = difficult_heads();
  for (float& score : heads.scores) score = std::isinf(score) ? 77.0f : score;
  const Protect protect{.sinks = 2, .recent = 3};
  const std::vector<float> got = masses_of(heads, protect);
  for (std::size_t h = 0; h + 1 < heads.offsets.size(); ++h) {
    const std::vector<double> scores = heads.head(h);
    const reference::Rows order = reference::selection_order(scores);
    const auto mass = [&](std::size_t row) { return scores[row] > 0 ? scores[row] : 0.0; };
    double whole = 0.0;
    for (std::size_t row = 0; row < scores.size(); ++row) whole += mass(row);
    if (whole == 0.0) continue;
    double part = 0.0;
    for (std::size_t k = order.size(); k-- > 0;) {
      const std::size_t row = order[k];
      const bool held = row < 2 || row + 3 >= scores.size();
      if (!held) part += mass(row);
      const auto at = static_cast<std::size_t>(heads.offsets[h]) + row;
      const double want = held ? 1.0 : part / whole;
      // One rounding to fp32, and the lost bits of 52-bit masses.
      const double bound = want * 0x1p-24 + static_cast<double>(scores.size()) * 0x1p-48;
      INFO("head " << h << ", row " << row);
      REQUIRE(std::abs(static_cast<double>(got[at]) - want) <= bound);
    }
  }
}

TEST_CASE("orders of what has no rows, and what cannot be", "[ops][score_order]") {
  Heads none;
  REQUIRE(ranks_of(none).empty());
  REQUIRE(masses_of(none).empty());
  Heads heads;
  heads.add({1, 2});
  TestResources res({.threads = 1});
  std::vector<float> out(2);
  const ScoreView<> scores{heads.scores.data(), heads.layout()};
  REQUIRE(refused([&] { remaining_mass(res, scores, {}, {}, scores); }) ==
          "out is the scores themselves, must be other memory");
  REQUIRE(refused([&] {
            rank_scores(res, scores, ScoreView<>{out.data(), RowLayout<>::uniform(1, 3)});
          }) == "out is of another shape, must be one score for each row of each head");
}

}  // namespace score_order_test
