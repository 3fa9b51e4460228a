// SPDX-License-Identifier: Apache-2.0
// Budgets of layers: heads of a layer count together, as PrefixKV, MEDA and D2O are published.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "allocators/shares_case.hpp"
#include "allocators/simulated_ranks.hpp"
#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/allocators/mass.hpp"
#include "kvevict/allocators/spread.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/score_order.hpp"
#include "kvevict/cpu/score_spread.hpp"
#include "kvevict/cpu/shared_scores.hpp"

using namespace kvevict_test;
using kvevict::HeadRanks;
using kvevict::MassBudget;
using kvevict::Spread;
using kvevict::SpreadBudget;

namespace {

constexpr std::int64_t layer_heads = 3;

// Layers of heads that hold equally many rows, with scores that are spread otherwise in each.
SharesCase layers_case(std::size_t layers, std::uint64_t seed, bool equal_shares = true) {
  const Random random(seed);
  std::uint64_t at = 0;
  SharesCase given;
  for (std::size_t l = 0; l < layers; ++l) {
    const std::int64_t rows = 10 + random.integer(at++, 50);
    const std::int64_t share = 2 + random.integer(at++, rows / 2);
    const double width = 3.0 * random.uniform(at++);
    for (std::size_t h = 0; h < layer_heads; ++h) {
      given.heads.emplace_back();
      for (std::int64_t i = 0; i < rows; ++i) {
        given.heads.back().push_back(static_cast<float>(std::exp(width * random.normal(at++))));
      }
      given.shares.push_back(share + (equal_shares ? 0 : static_cast<std::int64_t>(h % 2)));
    }
  }
  return given;
}

// The mean scores of a layer as parts of their sum, in double.
std::vector<double> masses_of(const SharesCase& given, std::size_t layer) {
  std::vector<double> mean(given.heads[layer * layer_heads].size(), 0.0);
  for (std::size_t h = 0; h < layer_heads; ++h) {
    const std::vector<float>& head = given.heads[layer * layer_heads + h];
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(head[i]);
  }
  const double sum = std::accumulate(mean.begin(), mean.end(), 0.0);
  for (double& mass : mean) mass /= sum;
  return mean;
}

std::int64_t sum_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// Counts of the heads of each layer differ by a row at most.
void require_level(const Counts& counts) {
  for (std::size_t h = 0; h < counts.size(); h += layer_heads) {
    const auto first = counts.begin() + static_cast<std::ptrdiff_t>(h);
    const auto [least, most] = std::minmax_element(first, first + layer_heads);
    REQUIRE(*most - *least <= 1);
  }
}

}  // namespace

TEST_CASE("every layer keeps the same part of its mass", "[allocators][layers]") {
  // Means 70, 25, 3, 1, 1 and five times 20: 80 % are two rows here and four there.
  const SharesCase given{
      {{90, 5, 3, 1, 1}, {50, 45, 3, 1, 1}, {10, 30, 0, 20, 40}, {30, 10, 40, 20, 0}},
      {3, 3, 3, 3}};
  REQUIRE(given.divide(MassBudget::published(2)) == Counts{2, 2, 4, 4});
  REQUIRE(given.divide(MassBudget{.heads_per_group = 2, .heads_together = 2}) == given.shares);
  REQUIRE(given.divide(MassBudget{.heads_together = 2, .floor = 3}) == given.shares);
  REQUIRE(given.divide(MassBudget{.heads_together = 2, .cap = 3}) == given.shares);
  SharesCase held = given;
  held.protect = {.recent = 3};
  REQUIRE(held.divide(MassBudget::published(2)) == given.shares);
}

TEST_CASE("layers by mass are those of a search for their common part", "[allocators][layers]") {
  constexpr double resolution = 1e-6;  // of parts, which are compared as floats
  for (std::uint64_t seed = 0; seed < for_backend(100u, 8u); ++seed) {
    INFO("seed " << seed);
    const SharesCase given = layers_case(4, seed, seed % 2 == 0);
    const std::int64_t total = sum_of(given.shares);
    std::vector<std::vector<double>> curves;
    for (std::size_t l = 0; l < 4; ++l) {
      std::vector<double> masses = masses_of(given, l);
      std::sort(masses.begin(), masses.end(), std::greater<>());
      std::partial_sum(masses.begin(), masses.end(), masses.begin());
      curves.push_back(masses);
    }
    // Rows of a head that retain the part p of its layer's mass.
    const auto rows_for = [&](std::size_t l, double p) {
      const auto least = std::lower_bound(curves[l].begin(), curves[l].end(), p);
      return std::min<std::int64_t>(least - curves[l].begin() + 1,
                                    static_cast<std::int64_t>(curves[l].size()));
    };
    double low = 0.0;
    double high = 1.0;
    for (int step = 0; step < 60; ++step) {
      const double p = 0.5 * (low + high);
      std::int64_t rows = 0;
      for (std::size_t l = 0; l < 4; ++l) rows += layer_heads * rows_for(l, p);
      (rows <= total ? low : high) = p;
    }
    const Counts counts = given.divide(MassBudget::published(layer_heads));
    require_level(counts);
    for (std::size_t h = 0; h < counts.size(); ++h) {
      REQUIRE(counts[h] >= rows_for(h / layer_heads, low - resolution));
      REQUIRE(counts[h] <= rows_for(h / layer_heads, low + resolution));
    }
  }
}

TEST_CASE("layers by spread keep in proportion to their effective rows", "[allocators][layers]") {
  constexpr double resolution = 1e-3;  // effective rows are weighed in units of 2^-20
  for (const Spread spread : {Spread::entropy, Spread::variance}) {
    for (std::uint64_t seed = 0; seed < for_backend(100u, 8u); ++seed) {
      INFO("seed " << seed);
      const SharesCase given = layers_case(4, 500 + seed);
      std::vector<double> effective;
      std::vector<double> rows;
      for (std::size_t l = 0; l < 4; ++l) {
        double entropy = 0.0;
        double squares = 0.0;
        for (const double p : masses_of(given, l)) {
          entropy -= p * std::log(p);
          squares += p * p;
        }
        effective.push_back(spread == Spread::entropy ? std::exp(entropy) : 1.0 / squares);
        rows.push_back(static_cast<double>(given.heads[l * layer_heads].size()));
      }
      // min(t effective, rows) of each head, t such that all of them sum to the total.
      double low = 0.0;
      double high = 100.0;
      for (int step = 0; step < 80; ++step) {
        const double t = 0.5 * (low + high);
        double sum = 0.0;
        for (std::size_t l = 0; l < 4; ++l)
          sum += layer_heads * std::min(t * effective[l], rows[l]);
        (sum <= static_cast<double>(sum_of(given.shares)) ? low : high) = t;
      }
      const Counts counts =
          given.divide(SpreadBudget{.spread = spread, .heads_together = layer_heads, .floor = 0});
      require_level(counts);
      for (std::size_t h = 0; h < counts.size(); ++h) {
        const std::size_t l = h / layer_heads;
        const double wanted = std::min(low * effective[l], rows[l]);
        REQUIRE(std::abs(static_cast<double>(counts[h]) - wanted) < 1.0 + resolution);
      }
    }
  }
}

TEST_CASE("layers keep level where masses are zero or rows are protected", "[allocators][layers]") {
  // All but one row of each head without mass: what they keep beside it is a tie of many rows.
  SharesCase given;
  for (std::size_t h = 0; h < 2 * layer_heads; ++h) {
    given.heads.emplace_back(20, 0.0f);
    given.heads.back()[h] = 1.0f;
    given.shares.push_back(7);
  }
  for (const std::int64_t share : {7, 8}) {
    given.shares[1] = share;
    require_level(given.divide(MassBudget::published(layer_heads)));
    require_level(given.divide(SpreadBudget{.heads_together = layer_heads}));
  }
  given.protect = {.sinks = 3, .recent = 4};
  const Counts counts = given.divide(MassBudget::published(layer_heads));
  require_level(counts);
  REQUIRE(*std::min_element(counts.begin(), counts.end()) == 7);
}

TEST_CASE("layers without rows or shares", "[allocators][layers]") {
  const SharesCase empty{{{}, {}, {1, 2, 3}, {3, 2, 1}}, {0, 0, 2, 2}};
  REQUIRE(empty.divide(MassBudget::published(2)) == empty.shares);
  REQUIRE(empty.divide(SpreadBudget{.heads_together = 2}) == empty.shares);
  const SharesCase nothing{{{1, 2}, {2, 1}}, {0, 0}};
  REQUIRE(nothing.divide(MassBudget::published(2)) == Counts{0, 0});
  REQUIRE(nothing.divide(SpreadBudget{.heads_together = 2}) == Counts{0, 0});
}

TEST_CASE("scores of layers that are no masses", "[allocators][layers]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  // The means of the first layer are NaN, negative and 4; those of the second 1, 1 and 2.
  const SharesCase given{{{nan, -9, 4}, {5, 1, 4}, {1, 0, 2}, {1, 2, 2}}, {1, 1, 2, 2}};
  REQUIRE(given.divide(MassBudget::published(2)) == Counts{1, 1, 2, 2});
  const SharesCase unbounded{{{infinite, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, {2, 2, 2, 2}};
  REQUIRE(unbounded.divide(MassBudget::published(2)) == Counts{1, 1, 3, 3});
}

TEST_CASE("layers over several processes", "[allocators][layers][ranks]") {
  const std::vector<std::size_t> splits[] = {{0, 1, 3}, {0, 2, 3}, {0, 1, 2, 3}, {0, 3}};
  for (const auto& places : splits) {
    for (std::uint64_t seed = 0; seed < for_backend(10u, 2u); ++seed) {
      INFO(places.size() - 1 << " ranks, seed " << seed);
      SharesCase whole = layers_case(3, 900 + seed, false);
      whole.protect = {.sinks = 1, .recent = 1};
      const auto check = [&](const auto& make) {
        TestResources res({.threads = 1});
        const Counts all = whole.divide(res, make(HeadRanks{}));
        SimulatedRanks ranks(places.size() - 1);
        const auto parts = ranks.run([&](std::size_t rank, HeadRanks hook) {
          hook.first_head = static_cast<std::int64_t>(places[rank]);
          hook.heads = static_cast<std::int64_t>(places[rank + 1] - places[rank]);
          hook.layer_heads = layer_heads;
          TestResources of_rank({.threads = 1});
          return part_of(whole, layer_heads, places[rank], places[rank + 1])
              .divide(of_rank, make(hook));
        });
        REQUIRE(ranks.error().empty());
        for (std::size_t rank = 0; rank + 1 < places.size(); ++rank) {
          Counts want;
          for (std::size_t h = 0; h < all.size(); ++h) {
            const std::size_t in_layer = h % layer_heads;
            if (in_layer >= places[rank] && in_layer < places[rank + 1]) want.push_back(all[h]);
          }
          REQUIRE(parts[rank] == want);
        }
      };
      check([](const HeadRanks& ranks) {
        return MassBudget{.heads_together = layer_heads, .ranks = ranks};
      });
      check([](const HeadRanks& ranks) {
        return SpreadBudget{.heads_together = layer_heads, .ranks = ranks};
      });
    }
  }
}

TEST_CASE("layers that cannot be are refused", "[allocators][layers]") {
  const SharesCase given{{{1, 2}, {3, 4}, {1, 2, 3}, {1, 2, 3}}, {1, 1, 1, 1}};
  REQUIRE(refused([&] { given.divide(MassBudget::published(0)); }) ==
          "heads_together is 0, must be >= 1");
  REQUIRE(refused([&] { given.divide(MassBudget::published(3)); }) ==
          "heads_together is 3, must be a divisor of the heads of a group, 4");
  REQUIRE(refused([&] { given.divide(SpreadBudget{.heads_per_group = 2, .heads_together = 4}); }) ==
          "heads_together is 4, must be a divisor of the heads of a group, 2");
  REQUIRE(refused([&] { given.divide(SpreadBudget{.heads_together = 4}); }) ==
          "rows of head 2 is 3, must be those of the first head of its group, 2");
  REQUIRE(refused_budget([&] { given.divide(MassBudget{.heads_together = 2, .floor = 2}); }) ==
          "protected rows and floors is 8, must be at most the budget's rows, 4");
  HeadRanks ranks{[](void*, std::int64_t*, std::int64_t) {}, nullptr, 0, 4, 8};
  REQUIRE(refused([&] { given.divide(MassBudget{.heads_together = 2, .ranks = ranks}); }) ==
          "heads_together is 2, must be equal to ranks.layer_heads, 8");
}
