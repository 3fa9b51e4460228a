// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "reference/selection.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace global_counts_test {

using namespace kvevict_test;
using kvevict::Protect;
using kvevict::RowLayout;
using HostPositions = kvevict::Positions<>;

namespace {

constexpr std::int64_t no_cap = std::numeric_limits<std::int32_t>::max();

struct Heads {
  std::vector<std::int64_t> offsets = {0};
  std::vector<float> scores;
  std::vector<std::int32_t> positions;

  void add(const std::vector<float>& head, std::int32_t first = 0, std::int32_t step = 1) {
    for (std::size_t i = 0; i < head.size(); ++i) {
      positions.push_back(first + step * static_cast<std::int32_t>(i));
    }
    scores.insert(scores.end(), head.begin(), head.end());
    offsets.push_back(static_cast<std::int64_t>(scores.size()));
  }
  std::int64_t heads() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  RowLayout<> layout() const { return RowLayout<>::ragged(offsets.data(), heads()); }
};

// With 1, 2 and 3 threads, which must agree.
std::vector<std::int64_t> counts_of(Heads& heads, std::int64_t total, std::int64_t floor = 0,
                                    std::int64_t cap = no_cap, const Protect& protect = {}) {
  std::vector<std::int64_t> first;
  for (const int threads : thread_counts) {
    TestResources res({.threads = threads});
    std::vector<std::int64_t> counts(static_cast<std::size_t>(heads.heads()), -1);
    const kvevict::AllocationInput<> input{{heads.scores.data(), heads.layout()},
                                           HostPositions::packed(heads.positions.data()),
                                           protect,
                                           nullptr,
                                           true};
    global_counts(res, input, total, floor, cap, counts.data());
    if (threads == 1) first = counts;
    REQUIRE(counts == first);
  }
  return first;
}

std::vector<std::int64_t> expected(const Heads& heads, std::int64_t total, std::int64_t floor,
                                   std::int64_t cap, const Protect& protect) {
  reference::Scores scores;
  std::vector<reference::Rows> held;
  std::vector<std::pair<std::int64_t, std::int64_t>> spans;
  for (const auto& span : protect.spans) spans.push_back({span.begin, span.end});
  for (std::size_t h = 0; h + 1 < heads.offsets.size(); ++h) {
    const auto begin = heads.offsets[h];
    const auto end = heads.offsets[h + 1];
    scores.emplace_back(heads.scores.begin() + begin, heads.scores.begin() + end);
    held.push_back(reference::protected_rows(
        reference::Positions(heads.positions.begin() + begin, heads.positions.begin() + end),
        protect.sinks, protect.recent, spans));
  }
  std::vector<std::int64_t> counts;
  for (const reference::Rows& rows :
       reference::select_global(scores, static_cast<std::size_t>(total), held,
                                static_cast<std::size_t>(floor), static_cast<std::size_t>(cap))) {
    counts.push_back(static_cast<std::int64_t>(rows.size()));
  }
  return counts;
}

// Scores in few or many levels, with NaN and infinities now and then.
float draw_score(const Random& random, std::uint64_t at, int levels) {
  if (random.integer(3 * at, 30) == 0) {
    constexpr float inf = std::numeric_limits<float>::infinity();
    const float special[] = {std::nanf(""), inf, -inf, 0.0f, -0.0f};
    return special[random.integer(3 * at + 1, 5)];
  }
  if (levels == 0) return static_cast<float>(random.normal(3 * at + 2));
  return static_cast<float>(random.integer(3 * at + 2, levels)) - 1.0f;
}

}  // namespace

TEST_CASE("one threshold over all heads", "[ops][global_counts]") {
  Heads heads;
  heads.add({9, 8, 1, 1});
  heads.add({7, 0, 0, 0});
  heads.add({6, 5, 4, 3});
  REQUIRE(counts_of(heads, 5) == std::vector<std::int64_t>{2, 1, 2});
  REQUIRE(counts_of(heads, 2) == std::vector<std::int64_t>{2, 0, 0});
  REQUIRE(counts_of(heads, 0) == std::vector<std::int64_t>{0, 0, 0});
  REQUIRE(counts_of(heads, 12) == std::vector<std::int64_t>{4, 4, 4});
  // Floors take from the best, caps give to the next.
  REQUIRE(counts_of(heads, 5, 1) == std::vector<std::int64_t>{2, 1, 2});
  REQUIRE(counts_of(heads, 3, 1) == std::vector<std::int64_t>{1, 1, 1});
  REQUIRE(counts_of(heads, 5, 0, 2) == std::vector<std::int64_t>{2, 1, 2});
  REQUIRE(counts_of(heads, 6, 0, 2) == std::vector<std::int64_t>{2, 2, 2});
  // Protected rows count although their scores are low.
  REQUIRE(counts_of(heads, 5, 0, no_cap, {.recent = 1}) == std::vector<std::int64_t>{3, 1, 1});
}

TEST_CASE("ties go to the first heads", "[ops][global_counts]") {
  Heads heads;
  for (int h = 0; h < 4; ++h) heads.add({1, 1, 1});
  REQUIRE(counts_of(heads, 7) == std::vector<std::int64_t>{3, 3, 1, 0});
  REQUIRE(counts_of(heads, 7, 1) == std::vector<std::int64_t>{3, 2, 1, 1});
  REQUIRE(counts_of(heads, 7, 1, 2) == std::vector<std::int64_t>{2, 2, 2, 1});
}

TEST_CASE("random heads agree with brute force", "[ops][global_counts]") {
  const Random random(12);
  std::uint64_t next = 0;
  const auto draw = [&](std::int64_t count) { return random.integer(next++, count); };
  const Random score_random(13);
  std::uint64_t score_at = 0;
  int compared = 0;
  int rounds = 0;
  for (int round = 0; round < for_backend(800, 60); ++round) {
    if (!case_runs(static_cast<std::uint64_t>(round))) continue;
    ++rounds;
    Heads heads;
    const int levels = round % 3 == 0 ? 0 : 3;
    for (std::int64_t h = 1 + draw(6); h > 0; --h) {
      std::vector<float> head;
      for (std::int64_t i = draw(12); i > 0; --i) {
        head.push_back(draw_score(score_random, score_at++, levels));
      }
      heads.add(head, static_cast<std::int32_t>(draw(4)), static_cast<std::int32_t>(1 + draw(3)));
    }
    const kvevict::PositionSpan spans[] = {
        {static_cast<std::int32_t>(draw(8)), static_cast<std::int32_t>(8 + draw(8))}};
    const Protect protect{
        .sinks = draw(4), .recent = draw(3), .spans = std::span(spans, round % 4 == 0 ? 1u : 0u)};
    const std::int64_t floor = draw(3);
    const std::int64_t cap = draw(2) == 0 ? no_cap : floor + draw(8);
    for (std::int64_t total = 0; total <= heads.layout().total(); ++total) {
      std::vector<std::int64_t> want;
      std::string problem;
      try {
        want = expected(heads, total, floor, cap, protect);
      } catch (const std::invalid_argument& error) {
        problem = error.what();
      }
      INFO("round " << round << ", total " << total << ", floor " << floor << ", cap " << cap);
      if (problem.empty()) {
        REQUIRE(counts_of(heads, total, floor, cap, protect) == want);
        ++compared;
      } else {
        REQUIRE_THROWS_AS(counts_of(heads, total, floor, cap, protect), kvevict::Error);
      }
    }
  }
  REQUIRE(compared > 5 * rounds);
}

TEST_CASE("sums are exact and every head only gains with the total", "[ops][global_counts]") {
  const Random random(14);
  Heads heads;
  std::uint64_t at = 0;
  for (const std::int64_t rows : {300, 17, 0, 1000, 1}) {
    std::vector<float> head;
    for (std::int64_t i = 0; i < rows; ++i) head.push_back(draw_score(random, at++, 40));
    heads.add(head);
  }
  std::vector<std::int64_t> previous(5, 0);
  const std::int64_t step = for_backend(7, 61);
  for (std::int64_t total = 4; total <= heads.layout().total(); total += step) {
    const std::vector<std::int64_t> counts = counts_of(heads, total, 1, 900);
    if (total <= 300 + 17 + 900 + 1) {
      REQUIRE(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == total);
    }
    for (std::size_t h = 0; h < 5; ++h) REQUIRE(counts[h] >= previous[h]);
    previous = counts;
    if (total + step > 300 + 17 + 900 + 1) break;
  }
}

TEST_CASE("groups of heads are divided as each group alone", "[ops][global_counts]") {
  const Random random(15);
  std::uint64_t at = 0;
  for (int round = 0; round < for_backend(60, 6); ++round) {
    constexpr std::int64_t group = 3;
    constexpr std::int64_t groups = 4;
    Heads all;
    std::vector<Heads> alone(groups);
    std::vector<std::int64_t> totals;
    std::vector<std::int64_t> want;
    const std::vector<kvevict::HeadLimits> limits(group * groups, {1, 25});
    for (std::int64_t g = 0; g < groups; ++g) {
      for (std::int64_t h = 0; h < group; ++h) {
        std::vector<float> head;
        for (std::int64_t i = 2 + random.integer(at++, 30); i > 0; --i) {
          head.push_back(draw_score(random, at++, round % 2 == 0 ? 4 : 0));
        }
        all.add(head);
        alone[static_cast<std::size_t>(g)].add(head);
      }
      const Heads& heads = alone[static_cast<std::size_t>(g)];
      totals.push_back(group + random.integer(at++, heads.layout().total() / 3));
      const std::vector<std::int64_t> counts =
          counts_of(alone[static_cast<std::size_t>(g)], totals.back(), 1, 25, {.recent = 1});
      want.insert(want.end(), counts.begin(), counts.end());
    }
    TestResources res({.threads = 2});
    std::vector<std::int64_t> counts(want.size(), -1);
    const kvevict::AllocationInput<> input{{all.scores.data(), all.layout()},
                                           HostPositions::packed(all.positions.data()),
                                           {.recent = 1},
                                           nullptr,
                                           true};
    global_counts(res, input, kvevict::ThresholdGroups{group, totals.data(), limits.data()},
                  counts.data());
    INFO("round " << round);
    REQUIRE(counts == want);
  }
}

TEST_CASE("groups that do not divide the heads are refused", "[ops][global_counts]") {
  Heads heads;
  for (int h = 0; h < 4; ++h) heads.add({1, 2});
  const std::vector<kvevict::HeadLimits> limits(4, {0, 2});
  const std::vector<std::int64_t> totals(4, 2);
  std::vector<std::int64_t> counts(4);
  TestResources res({.threads = 1});
  const kvevict::AllocationInput<> input{
      {heads.scores.data(), heads.layout()}, {}, {}, nullptr, true};
  for (const std::int64_t group : {0, 3, 8}) {
    REQUIRE(
        refused([&] {
          global_counts(res, input, kvevict::ThresholdGroups{group, totals.data(), limits.data()},
                        counts.data());
        }) == "groups.heads is " + std::to_string(group) + ", must be a divisor of the heads, 4");
  }
  const std::vector<std::int64_t> uneven = {3, 5};
  REQUIRE(refused_budget([&] {
            global_counts(res, input, kvevict::ThresholdGroups{2, uneven.data(), limits.data()},
                          counts.data());
          }) == "rows within the caps of group 1 is 4, must be at least the budget's rows, 5");
}

TEST_CASE("no heads share nothing", "[ops][global_counts]") {
  Heads none;
  REQUIRE(counts_of(none, 0).empty());
  REQUIRE_THROWS_AS(counts_of(none, 1), kvevict::Error);
}

TEST_CASE("totals that do not fit are budget errors", "[ops][global_counts]") {
  Heads heads;
  heads.add({1, 2, 3});
  heads.add({1, 2});
  const auto problem = [&](std::int64_t total, std::int64_t floor, std::int64_t cap,
                           const Protect& protect) {
    return refused_budget([&] { counts_of(heads, total, floor, cap, protect); });
  };
  REQUIRE(problem(3, 2, no_cap, {}) ==
          "protected rows and floors is 4, must be at most the budget's rows, 3");
  REQUIRE(problem(2, 0, no_cap, {.recent = 2}) ==
          "protected rows and floors is 4, must be at most the budget's rows, 2");
  REQUIRE(problem(4, 0, 1, {}) ==
          "rows within the caps is 2, must be at least the budget's rows, 4");
  REQUIRE(problem(6, 0, no_cap, {}) ==
          "rows within the caps is 5, must be at least the budget's rows, 6");
  REQUIRE(refused([&] { counts_of(heads, 3, -1); }) == "floor is -1, must be >= 0");
  REQUIRE(refused([&] { counts_of(heads, 3, 2, 1); }) == "cap is 1, must be >= floor, 2");
  REQUIRE(refused([&] { counts_of(heads, 3, 0, no_cap, {.sinks = -2}); }) ==
          "protect.sinks is -2, must be >= 0");
}

}  // namespace global_counts_test
