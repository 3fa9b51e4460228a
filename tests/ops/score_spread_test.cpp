// SPDX-License-Identifier: Apache-2.0
#include "kvevict/cpu/score_spread.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace score_spread_test {

using namespace kvevict_test;
using kvevict::RowLayout;
using kvevict::ScoreView;
using kvevict::Spread;

namespace {

std::vector<double> spread_of(const std::vector<std::vector<float>>& heads, Spread spread) {
  std::vector<std::int64_t> offsets = {0};
  std::vector<float> scores;
  for (const std::vector<float>& head : heads) {
    scores.insert(scores.end(), head.begin(), head.end());
    offsets.push_back(static_cast<std::int64_t>(scores.size()));
  }
  std::vector<double> first;
  for (const int threads : thread_counts) {
    TestResources res({.threads = threads});
    std::vector<double> out(heads.size() + 1, -1.0);
    effective_rows(
        res,
        ScoreView<>{scores.data(),
                    RowLayout<>::ragged(offsets.data(), static_cast<std::int64_t>(heads.size()))},
        spread, out.data());
    REQUIRE(out.back() == -1.0);
    out.pop_back();
    if (threads == 1) first = out;
    REQUIRE(out == first);
  }
  return first;
}

// From the formulas, probabilities first.
double expected(const std::vector<float>& head, Spread spread) {
  double sum = 0.0;
  for (const float s : head) sum += s > 0 ? static_cast<double>(s) : 0.0;
  double entropy = 0.0;
  double squares = 0.0;
  for (const float s : head) {
    const double p = s > 0 ? static_cast<double>(s) / sum : 0.0;
    if (p > 0) entropy -= p * std::log(p);
    squares += p * p;
  }
  return spread == Spread::entropy ? std::exp(entropy) : 1.0 / squares;
}

}  // namespace

TEST_CASE("scores that are equal are spread over all their rows", "[ops][score_spread]") {
  for (const Spread spread : {Spread::entropy, Spread::variance}) {
    const std::vector<double> got = spread_of(
        {{2, 2, 2, 2}, {7}, {}, {0, 0, 0}, {5, 0, 0, 5}, {1e-45f, 1e-45f}, {3e38f, 3e38f, 3e38f}},
        spread);
    const std::vector<double> want = {4, 1, 0, 3, 2, 2, 3};
    for (std::size_t h = 0; h < want.size(); ++h) {
      REQUIRE(got[h] == Approx(want[h]).epsilon(1e-14));
    }
  }
}

TEST_CASE("spreads agree with the formulas", "[ops][score_spread]") {
  const Random random(8);
  std::uint64_t at = 0;
  std::vector<std::vector<float>> heads;
  for (int h = 0; h < 20; ++h) {
    heads.emplace_back();
    for (std::int64_t i = 1 + random.integer(at++, 700); i > 0; --i) {
      heads.back().push_back(
          static_cast<float>(std::exp(static_cast<double>(h) * random.normal(at++))));
    }
  }
  for (const Spread spread : {Spread::entropy, Spread::variance}) {
    const std::vector<double> got = spread_of(heads, spread);
    for (std::size_t h = 0; h < heads.size(); ++h) {
      // Sums of up to 700 terms in double.
      REQUIRE(got[h] == Approx(expected(heads[h], spread)).epsilon(1e-12));
      REQUIRE(got[h] >= 1.0 - 1e-12);
      REQUIRE(got[h] <= static_cast<double>(heads[h].size()) * (1 + 1e-12));
    }
  }
}

TEST_CASE("the scale of a head's scores does not matter, the signs and NaN do not count",
          "[ops][score_spread]") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const Spread spread : {Spread::entropy, Spread::variance}) {
    const std::vector<double> got =
        spread_of({{1, 2, 4}, {1024, 2048, 4096}, {1, -7, 2, nan, 4}, {inf, 3, inf}}, spread);
    REQUIRE(got[1] == got[0]);
    REQUIRE(got[2] == Approx(got[0]).epsilon(1e-14));
    REQUIRE(got[3] == Approx(2.0).epsilon(1e-14));
  }
}

}  // namespace score_spread_test
