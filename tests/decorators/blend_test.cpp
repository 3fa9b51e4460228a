// SPDX-License-Identifier: Apache-2.0
#include "kvevict/decorators/blend.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decorators/decorated_case.hpp"
#include "front/given_scores.hpp"
#include "reference/selection.hpp"

using kvevict::Blend;
using kvevict::BlendOf;
using kvevict::Combination;
using kvevict::KNorm;
using kvevict::StreamingLLM;
using namespace kvevict_test;

namespace {

// (rows - rank) / rows of every row.
std::vector<double> ranks(const std::vector<float>& scores) {
  const reference::Rows order = reference::selection_order({scores.begin(), scores.end()});
  std::vector<double> out(scores.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    out[order[k]] = static_cast<double>(order.size() - k) / static_cast<double>(order.size());
  }
  return out;
}

double combined(double a, double b, Combination combination) {
  if (combination == Combination::sum) return a + b;
  return combination == Combination::max ? std::max(a, b) : std::min(a, b);
}

}  // namespace

TEST_CASE("ranks and scores of two policies are blended", "[decorators]") {
  DecoratedCase given;
  const auto first = given.scores(KNorm{});
  const auto second = given.scores(StreamingLLM{});
  for (const auto of : {BlendOf::ranks, BlendOf::values}) {
    for (const auto combination : {Combination::sum, Combination::max, Combination::min}) {
      const Blend<KNorm, StreamingLLM> policy{
          .weights = {2.0, 0.25}, .of = of, .combination = combination};
      const auto got = given.scores(policy);
      for (std::size_t h = 0; h < first.size(); ++h) {
        std::vector<double> a(first[h].begin(), first[h].end());
        std::vector<double> b(second[h].begin(), second[h].end());
        if (of == BlendOf::ranks) {
          a = ranks(first[h]);
          b = ranks(second[h]);
        }
        for (std::size_t i = 0; i < a.size(); ++i) {
          // A few roundings to fp32 of terms that do not exceed the larger one.
          const double size = std::max(std::abs(2.0 * a[i]), std::abs(0.25 * b[i]));
          REQUIRE(std::abs(static_cast<double>(got[h][i]) -
                           combined(2.0 * a[i], 0.25 * b[i], combination)) <= 0x1p-21 * size);
        }
      }
    }
  }
}

TEST_CASE("the union keeps what either policy ranks high", "[decorators]") {
  TestResources res({.threads = 1});
  const std::vector<float> rows(6);
  const auto cache = kvevict::KvView<const float>::hnd(rows.data(), rows.data(), 1, 6, 1);
  const Blend<GivenScores, GivenScores> policy{
      .policies = {GivenScores{{9, 8, 0, 1, 2, 3}}, GivenScores{{0, 1, 200, 300, 2, 3}}},
      .combination = Combination::max};
  std::vector<float> scores(6);
  kvevict::score_rows(res, policy, cache, {}, kvevict::ScoreView<>{scores.data(), cache.layout()});
  REQUIRE(reference::selection_order({scores.begin(), scores.end()}) ==
          reference::Rows{0, 3, 1, 2, 5, 4});
}

TEST_CASE("blends of three and of one, and blends of blends", "[decorators]") {
  DecoratedCase given;
  const auto alone = given.scores(Blend<KNorm>{.of = BlendOf::values});
  REQUIRE(alone == given.scores(KNorm{}));
  const Blend<Blend<KNorm, StreamingLLM>, KNorm> nested{.of = BlendOf::values};
  const auto inner = given.scores(Blend<KNorm, StreamingLLM>{});
  const auto norms = given.scores(KNorm{});
  const auto got = given.scores(nested);
  const auto three = given.scores(Blend<KNorm, StreamingLLM, KNorm>{});
  for (std::size_t h = 0; h < got.size(); ++h) {
    const std::vector<double> a = ranks(norms[h]);
    for (std::size_t i = 0; i < got[h].size(); ++i) {
      REQUIRE(got[h][i] == inner[h][i] + norms[h][i]);
      REQUIRE(static_cast<double>(three[h][i]) ==
              Approx(static_cast<double>(inner[h][i]) + a[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("blends are policies", "[decorators]") {
  const Blend<KNorm, kvevict::SnapKV> policy;
  REQUIRE(policy.needs() == kvevict::SnapKV{}.needs());
  REQUIRE(policy.weights[1] == 1.0);
  REQUIRE_FALSE(policy.comparable_across_heads());
  using Streams = Blend<StreamingLLM, StreamingLLM>;
  REQUIRE(Streams{.of = BlendOf::values}.comparable_across_heads());
  REQUIRE_FALSE(Streams{}.comparable_across_heads());
  REQUIRE(refused([] { Blend<KNorm>{.weights = {NAN}}.validate(); }) ==
          "weight is nan, must be finite");
  REQUIRE(refused([] {
            Blend<KNorm, StreamingLLM>{.policies = {KNorm{}, {.sinks = -1}}}.validate();
          }) == "sinks is -1, must be >= 0");
  std::vector<std::string> names;
  const Blend<KNorm, StreamingLLM> named;
  named.parameters(named, [&](std::string_view name, const auto&, std::string_view) {
    names.emplace_back(name);
  });
  REQUIRE(names ==
          std::vector<std::string>{"of", "combination", "weight.0", "weight.1", "1.sinks"});
}
