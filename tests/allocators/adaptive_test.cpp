// SPDX-License-Identifier: Apache-2.0
#include "kvevict/allocators/adaptive.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "allocators/shares_case.hpp"
#include "catch.hpp"
#include "core/errors.hpp"
#include "reference/selection.hpp"

using kvevict::AdaptiveBudget;
using namespace kvevict_test;

namespace {

SharesCase two_layers() {
  return {{{9, 8, 7, 6}, {1, 1, 1, 1}, {5, 1, 1, 1}, {1, 2, 3, 4}}, {2, 2, 2, 2}};
}

// Each layer by brute force: floors one after the other, then the best row of all, again and again.
Counts brute_force(const SharesCase& given, std::size_t layer, const AdaptiveBudget& budget) {
  Counts counts;
  for (std::size_t first = 0; first < given.heads.size(); first += layer) {
    std::vector<reference::Rows> order;
    Counts kept;
    std::int64_t total = 0;
    for (std::size_t h = first; h < first + layer; ++h) {
      // Rows of the head from best to worst, protected ones first.
      std::vector<double> scores(given.heads[h].begin(), given.heads[h].end());
      const auto rows = static_cast<std::int64_t>(scores.size());
      for (std::int64_t i = 0; i < rows; ++i) {
        const bool held =
            i < given.protect.sinks - given.first_position || i >= rows - given.protect.recent;
        if (held) scores[static_cast<std::size_t>(i)] = INFINITY;
      }
      order.push_back(reference::selection_order(scores));
      const std::int64_t share = given.shares[h];
      const std::int64_t safe =
          share == 0 ? 0
                     : std::max(budget.floor, static_cast<std::int64_t>(std::floor(
                                                  budget.safeguard * static_cast<double>(share))));
      kept.push_back(std::max(given.held(h), std::min({safe, rows, budget.cap})));
      total += share - kept.back();
    }
    for (; total > 0; --total) {
      std::size_t best = layer;
      double best_score = 0.0;
      for (std::size_t h = 0; h < layer; ++h) {
        if (kept[h] == static_cast<std::int64_t>(order[h].size()) || kept[h] >= budget.cap)
          continue;
        const double score = given.heads[first + h][order[h][static_cast<std::size_t>(kept[h])]];
        if (best == layer || score > best_score) {
          best = h;
          best_score = score;
        }
      }
      ++kept.at(best);
    }
    counts.insert(counts.end(), kept.begin(), kept.end());
  }
  return counts;
}

}  // namespace

TEST_CASE("each layer has a threshold of its own", "[allocators]") {
  const SharesCase given = two_layers();
  REQUIRE(given.divide(AdaptiveBudget{.heads_per_layer = 2}) == Counts{3, 1, 1, 3});
  // One layer of four heads.
  REQUIRE(given.divide(AdaptiveBudget{}) == Counts{4, 1, 1, 2});
  // A layer of one head keeps its share.
  REQUIRE(given.divide(AdaptiveBudget{.heads_per_layer = 1}) == given.shares);
}

TEST_CASE("every head keeps the safeguard's part of its share, and never less than the floor",
          "[allocators]") {
  SharesCase given = two_layers();
  REQUIRE(given.divide(AdaptiveBudget{.heads_per_layer = 2, .safeguard = 1.0}) == given.shares);
  REQUIRE(given.divide(AdaptiveBudget{.heads_per_layer = 2, .safeguard = 0.0}) ==
          Counts{3, 1, 1, 3});
  REQUIRE(given.divide(AdaptiveBudget{.heads_per_layer = 2, .safeguard = 0.0, .floor = 0}) ==
          Counts{4, 0, 1, 3});
  REQUIRE(given.divide(AdaptiveBudget{.heads_per_layer = 2, .safeguard = 0.0, .cap = 2}) ==
          Counts{2, 2, 2, 2});
  // A head without a share, such as an empty one, has no floor.
  given.shares = {4, 0, 0, 0};
  REQUIRE(given.divide(AdaptiveBudget{.heads_per_layer = 2}) == Counts{4, 0, 0, 0});
}

TEST_CASE("a cap bounds what the safeguard keeps, not what is protected", "[allocators]") {
  SharesCase given{{{9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, {4, 3, 2, 1}, {3, 2, 1, 0}}, {6, 1, 1}};
  for (const double safeguard : {0.0, 0.2, 0.9, 1.0}) {
    REQUIRE(given.divide(AdaptiveBudget{.safeguard = safeguard, .cap = 3}) == Counts{3, 3, 2});
  }
  given.protect = {.recent = 4};
  given.shares = {4, 4, 4};
  REQUIRE(given.divide(AdaptiveBudget{.safeguard = 1.0, .cap = 3}) == Counts{4, 4, 4});
}

TEST_CASE("random layers agree with brute force", "[allocators]") {
  const Random random(41);
  std::uint64_t at = 0;
  const auto draw = [&](std::int64_t count) { return random.integer(at++, count); };
  for (int round = 0; round < for_backend(600, 40); ++round) {
    SharesCase given;
    const std::size_t layer = static_cast<std::size_t>(1 + draw(4));
    const std::size_t layers = static_cast<std::size_t>(1 + draw(4));
    given.protect = {.sinks = draw(3), .recent = draw(2)};
    for (std::size_t h = 0; h < layer * layers; ++h) {
      given.heads.emplace_back();
      for (std::int64_t i = draw(14); i > 0; --i) {
        given.heads.back().push_back(static_cast<float>(draw(round % 2 == 0 ? 4 : 1000)));
      }
      const std::int64_t held = given.held(h);
      const auto rows = static_cast<std::int64_t>(given.heads.back().size());
      given.shares.push_back(std::max(held, draw(rows + 1)));
    }
    const AdaptiveBudget budget{.heads_per_layer = static_cast<std::int64_t>(layer),
                                .safeguard = static_cast<double>(draw(5)) / 4.0};
    INFO("round " << round);
    REQUIRE(given.divide(budget) == brute_force(given, layer, budget));
  }
}

TEST_CASE("layers of a batch are divided as each alone", "[allocators]") {
  const SharesCase given = SharesCase::random(12, 50, 13, 5);
  const Counts counts = given.divide(AdaptiveBudget{.heads_per_layer = 3});
  for (std::size_t first = 0; first < 12; first += 3) {
    SharesCase alone;
    alone.heads.assign(given.heads.begin() + static_cast<std::ptrdiff_t>(first),
                       given.heads.begin() + static_cast<std::ptrdiff_t>(first) + 3);
    alone.shares.assign(3, 13);
    const Counts of_layer = alone.divide(AdaptiveBudget{});
    REQUIRE(of_layer == Counts(counts.begin() + static_cast<std::ptrdiff_t>(first),
                               counts.begin() + static_cast<std::ptrdiff_t>(first) + 3));
  }
}

TEST_CASE("adaptive budgets that cannot be are refused", "[allocators]") {
  SharesCase given = two_layers();
  REQUIRE(refused([&] { given.divide(AdaptiveBudget{.heads_per_layer = 3}); }) ==
          "heads_per_layer is 3, must be a divisor of the heads, 4");
  REQUIRE(refused([&] { given.divide(AdaptiveBudget{.heads_per_layer = -1}); }) ==
          "heads_per_layer is -1, must be >= 0");
  REQUIRE(refused([&] { given.divide(AdaptiveBudget{.safeguard = 1.5}); }) ==
          "safeguard is 1.5, must be in [0, 1]");
  REQUIRE(refused([&] { given.divide(AdaptiveBudget{.safeguard = NAN}); }) ==
          "safeguard is nan, must be in [0, 1]");
  REQUIRE(refused_budget([&] { given.divide(AdaptiveBudget{.heads_per_layer = 2, .floor = 3}); }) ==
          "protected rows and floors of group 0 is 6, must be at most the budget's rows, 4");
  given.shares = {2, 2, 1, 1};
  given.protect = {.recent = 2};
  REQUIRE(refused_budget([&] { given.divide(AdaptiveBudget{.heads_per_layer = 2}); }) ==
          "protected rows and floors of group 1 is 4, must be at most the budget's rows, 2");
  given = two_layers();
  REQUIRE(refused_budget([&] {
            given.divide(AdaptiveBudget{.heads_per_layer = 2, .safeguard = 0.0, .cap = 1});
          }) == "rows within the caps of group 0 is 2, must be at least the budget's rows, 4");
  given.comparable = false;
  REQUIRE(refused([&] { given.divide(AdaptiveBudget{}); }, kvevict::ErrorKind::unsupported) ==
          "AdaptiveBudget.allow_incomparable is false, must be true for a policy whose scores are "
          "not comparable across heads");
  REQUIRE(given.divide(AdaptiveBudget{.allow_incomparable = true}) == Counts{4, 1, 1, 2});
}
