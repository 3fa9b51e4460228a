// SPDX-License-Identifier: Apache-2.0
#include "kvevict/decorators/span_protection.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decorators/decorated_case.hpp"
#include "front/given_scores.hpp"
#include "support/random.hpp"

using kvevict::Budget;
using kvevict::KNorm;
using kvevict::SpanProtection;
using namespace kvevict_test;

TEST_CASE("rows of closed turns and of spans rank first", "[decorators]") {
  DecoratedCase given;
  const auto inner = given.scores(KNorm{});
  const auto got = given.scores(SpanProtection<KNorm>{.closed = 7, .spans = {{20, 24}}});
  for (std::size_t h = 0; h < inner.size(); ++h) {
    for (std::size_t i = 0; i < inner[h].size(); ++i) {
      const bool lifted = i < 7 || (i >= 20 && i < 24);
      if (lifted) {
        REQUIRE(got[h][i] > *std::max_element(inner[h].begin(), inner[h].end()));
      } else {
        REQUIRE(got[h][i] == inner[h][i]);
      }
    }
  }
}

TEST_CASE("what a turn kept stays through the turns that follow", "[decorators]") {
  // Three turns of 20 rows; after each the cache may hold eight rows more.
  TestResources res({.threads = 1});
  std::vector<float> keys = random_values(Shape::normal, 60, 1);
  std::vector<float> values = keys;
  std::vector<std::int32_t> positions(60);
  std::int32_t* const table[] = {positions.data()};
  std::int64_t held = 0;
  std::vector<std::int32_t> kept_before;
  SpanProtection<KNorm> policy;
  for (std::int32_t turn = 0; turn < 3; ++turn) {
    for (std::int32_t i = 0; i < 20; ++i) {
      const auto row = static_cast<std::size_t>(held);
      keys[row] = static_cast<float>(Random(7).normal(static_cast<std::uint64_t>(20 * turn + i)));
      positions[row] = 20 * turn + i;
      ++held;
    }
    const auto cache = kvevict::KvView<float>::hnd(keys.data(), values.data(), 1, held, 1)
                           .with_positions(kvevict::MutablePositions<>::per_head(table));
    const kvevict::Selection kept = kvevict::evict(
        res, policy, cache, {}, Budget::rows(8 * (turn + 1)), policy.suggested_protection());
    kvevict::compact(res, kept, cache);
    held = kept.count(0);
    const std::vector<std::int32_t> now(positions.begin(),
                                        positions.begin() + static_cast<std::ptrdiff_t>(held));
    REQUIRE(now.size() == static_cast<std::size_t>(8 * (turn + 1)));
    REQUIRE(std::equal(kept_before.begin(), kept_before.end(), now.begin()));
    kept_before = now;
    policy.closed = 20 * (turn + 1);
  }
}

TEST_CASE("policies that protect spans are policies", "[decorators]") {
  const SpanProtection<KNorm> policy{.closed = 5, .spans = {{8, 9}}};
  REQUIRE_FALSE(policy == SpanProtection<KNorm>{.closed = 5});
  REQUIRE(policy.suggested_protection().sinks == 5);
  REQUIRE(policy.suggested_protection().spans.size() == 1);
  REQUIRE(refused([] { SpanProtection<KNorm>{.closed = -1}.validate(); }) ==
          "closed is -1, must be >= 0");
  REQUIRE(refused([] {
            SpanProtection<KNorm>{.spans = {{5, 4}}}.validate();
          }) == "protect.spans.end is 4, must be >= begin, 5");
}
