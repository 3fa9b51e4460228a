// SPDX-License-Identifier: Apache-2.0
#include "kvevict/policies/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "catch.hpp"
#include "policies/any_policy_calls.hpp"
#include "policies/policy_inputs.hpp"
#include "reference/random_inputs.hpp"
#include "support/backend.hpp"

namespace random_test {

using namespace kvevict_test;

namespace {

reference::Inputs rows(std::vector<reference::Positions> positions) {
  std::vector<std::size_t> counts;
  for (const reference::Positions& head : positions) counts.push_back(head.size());
  reference::Inputs inputs = reference::random_inputs({.group = 1, .rows = counts, .dim = 4}, 1);
  inputs.row_positions = std::move(positions);
  return inputs;
}

float unit(std::int32_t bits) { return static_cast<float>(bits) * 0x1p-24f; }

}  // namespace

TEST_CASE("Random: the stream of numbers is fixed", "[policies][random]") {
  // Computed with integers of unlimited size elsewhere; another backend must give the same.
  CHECK(library_scores(kvevict::Random{}, rows({{0, 1, 2, 3}, {0, 1}})) ==
        std::vector<float>{unit(2327157), unit(3093159), unit(11701324), unit(5388294),
                           unit(4515257), unit(4608913)});
  CHECK(library_scores(kvevict::Random{.seed = 7}, rows({{0, 1}})) ==
        std::vector<float>{unit(10223943), unit(16162359)});
  CHECK(library_scores(kvevict::Random{.seed = ~std::uint64_t{0}}, rows({{}, {}, {123456789}})) ==
        std::vector<float>{unit(15214643)});
}

TEST_CASE("Random: a row keeps its number wherever it stands", "[policies][random]") {
  const std::vector<float> all =
      library_scores(kvevict::Random{.seed = 3}, rows({{0, 1, 2, 3, 4, 5, 6}}));
  CHECK(library_scores(kvevict::Random{.seed = 3}, rows({{1, 4, 6}})) ==
        std::vector<float>{all[1], all[4], all[6]});
}

TEST_CASE("Random: seeds and heads draw on their own", "[policies][random]") {
  const reference::Inputs inputs = reference::random_inputs({.rows = {200, 200}}, 1);
  const std::vector<float> scores = library_scores(kvevict::Random{}, inputs);
  const std::vector<float> others = library_scores(kvevict::Random{.seed = 1}, inputs);
  const std::set<float> distinct(scores.begin(), scores.end());
  CHECK(distinct.size() >= 399);
  for (std::size_t i = 0; i < 400; ++i) CHECK(scores[i] != others[i]);
  CHECK(library_scores(kvevict::Random{}, inputs) == scores);
}

TEST_CASE("Random: numbers are uniform in [0, 1)", "[policies][random]") {
  const std::size_t count = 40000;
  reference::Inputs inputs;
  inputs.keys = {reference::Matrix(count, 1)};
  inputs.values = {reference::Matrix(count, 1)};
  const std::vector<float> scores = library_scores(kvevict::Random{.seed = 11}, inputs);
  std::vector<int> bins(16, 0);
  double sum = 0;
  double neighbours = 0;
  for (std::size_t i = 0; i < count; ++i) {
    REQUIRE((scores[i] >= 0 && scores[i] < 1));
    ++bins[static_cast<std::size_t>(scores[i] * 16)];
    const double centred = static_cast<double>(scores[i]) - 0.5;
    sum += centred;
    if (i > 0) neighbours += centred * (static_cast<double>(scores[i - 1]) - 0.5);
  }
  // Five standard deviations of each statistic.
  const double n = static_cast<double>(count);
  CHECK(std::abs(sum / n) < 5 * std::sqrt(1 / (12 * n)));
  CHECK(std::abs(neighbours / n) < 5 / 12.0 / std::sqrt(n));
  for (const int bin : bins) {
    CHECK(std::abs(bin - n / 16) < 5 * std::sqrt(n / 16 * 15 / 16));
  }
}

TEST_CASE("Random: every row can survive", "[policies][random]") {
  const reference::Inputs inputs = reference::random_inputs({.group = 1, .rows = {12}}, 1);
  const PackedCache<float> cache(inputs);
  TestResources res({.threads = 1});
  std::set<std::int32_t> survivors;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const kvevict::Selection kept = kvevict::evict(res, TestPolicy(kvevict::Random{.seed = seed}),
                                                   cache.view(), {}, kvevict::Budget::rows(3));
    CHECK(kept.count(0) == 3);
    for (const std::int32_t row : kept.head(0)) survivors.insert(row);
  }
  CHECK(survivors.size() == 12);
}

TEST_CASE("Random: needs nothing and is comparable across heads", "[policies][random]") {
  CHECK(kvevict::Random{}.needs().empty());
  CHECK(kvevict::Random{}.comparable_across_heads());
}

}  // namespace random_test
