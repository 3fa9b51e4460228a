// SPDX-License-Identifier: Apache-2.0
#include "kvevict/decorators/chunk_wise.hpp"

#include <cmath>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "decorators/decorated_case.hpp"
#include "front/given_scores.hpp"

using kvevict::ChunkWise;
using kvevict::KNorm;
using namespace kvevict_test;

TEST_CASE("rows of a chunk get its mean score", "[decorators]") {
  DecoratedCase given;
  const auto inner = given.scores(KNorm{});
  const auto got = given.scores(ChunkWise<KNorm>{.chunk = 8});
  for (std::size_t h = 0; h < inner.size(); ++h) {
    for (std::size_t i = 0; i < inner[h].size(); ++i) {
      const std::size_t first = i / 8 * 8;
      const std::size_t last = std::min(first + 8, inner[h].size());
      double sum = 0.0;
      for (std::size_t j = first; j < last; ++j) sum += static_cast<double>(inner[h][j]);
      const double want = sum / static_cast<double>(last - first);
      // One rounding to fp32.
      REQUIRE(static_cast<double>(got[h][i]) == Approx(want).epsilon(1.2e-7));
    }
  }
  REQUIRE(given.scores(ChunkWise<KNorm>{.chunk = 1}) == inner);
}

TEST_CASE("a budget keeps whole chunks, and of the last one the first rows", "[decorators]") {
  TestResources res({.threads = 1});
  const std::vector<float> rows(10);
  const auto cache = kvevict::KvView<const float>::hnd(rows.data(), rows.data(), 1, 10, 1);
  const ChunkWise<GivenScores> policy{{{1, 1, 9, 0, 0, 5, 5, 5, 2, 2}}, 3};
  // Means 3.67, 1.67, 5 and 2.
  const auto kept = [&](std::int64_t count) {
    const kvevict::Selection selection =
        kvevict::evict(res, policy, cache, {}, kvevict::Budget::rows(count));
    return std::vector<std::int32_t>(selection.head(0).begin(), selection.head(0).end());
  };
  REQUIRE(kept(3) == std::vector<std::int32_t>{6, 7, 8});
  REQUIRE(kept(5) == std::vector<std::int32_t>{0, 1, 6, 7, 8});
  REQUIRE(kept(7) == std::vector<std::int32_t>{0, 1, 2, 6, 7, 8, 9});
}

TEST_CASE("chunk-wise policies are policies", "[decorators]") {
  const ChunkWise<kvevict::SnapKV> policy;
  REQUIRE(policy.needs() == kvevict::SnapKV{}.needs());
  REQUIRE_FALSE(policy.comparable_across_heads());
  REQUIRE(policy == ChunkWise<kvevict::SnapKV>{.chunk = 20});
  REQUIRE_FALSE(policy == ChunkWise<kvevict::SnapKV>{.chunk = 21});
  REQUIRE(refused([] { ChunkWise<KNorm>{.chunk = 0}.validate(); }) == "chunk is 0, must be >= 1");
  REQUIRE(refused([] {
            ChunkWise<kvevict::SnapKV>{{.window = 0}, 4}.validate();
          }) == "window is 0, must be >= 1");
}
