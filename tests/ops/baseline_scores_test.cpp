// SPDX-License-Identifier: Apache-2.0
#include "kvevict/ops/baseline_scores.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/far_memory.hpp"
#include "kvevict/cpu/baseline_scores.hpp"
#include "kvevict/math/random.hpp"
#include "ops/op_runs.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::RowLayout;
using HostPositions = kvevict::Positions<>;

TEST_CASE("random scores depend on seed, head and position only", "[ops][baseline]") {
  const std::vector<std::int64_t> offsets = {0, 3, 3, 8};
  const std::vector<std::int32_t> positions = {0, 7, 9, 0, 1, 7, 9, 200};
  const auto scores = [&](const RowLayout<>& layout, const HostPositions& at, std::uint64_t seed) {
    return scores_of(layout, [&](auto& res, auto out) { random_scores(res, at, seed, out); });
  };
  const auto ragged = RowLayout<>::ragged(offsets.data(), 3);
  const std::vector<float> some = scores(ragged, HostPositions::packed(positions.data()), 42);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint64_t head = i < 3 ? 0 : 2;
    REQUIRE(some[i] == kvevict::random_uniform(42, head, static_cast<std::uint64_t>(positions[i])));
  }
  // A row that survived keeps its number, whatever went before it.
  const std::vector<float> all = scores(RowLayout<>::uniform(1, 10), {}, 42);
  REQUIRE(all[7] == some[1]);
  REQUIRE(all[9] == some[2]);
  REQUIRE(scores(RowLayout<>::uniform(1, 10), {}, 43) != all);
}

TEST_CASE("recency scores rank sinks first, then the newest", "[ops][baseline]") {
  const auto scores = [](const RowLayout<>& layout, std::int64_t sinks,
                         const HostPositions& positions = {}) {
    return scores_of(layout,
                     [&](auto& res, auto out) { recency_scores(res, positions, sinks, out); });
  };
  using V = std::vector<float>;
  REQUIRE(scores(RowLayout<>::uniform(1, 6), 2) == V{5, 4, 0, 1, 2, 3});
  REQUIRE(scores(RowLayout<>::uniform(2, 3), 0) == V{0, 1, 2, 0, 1, 2});
  REQUIRE(scores(RowLayout<>::uniform(1, 3), 10) == V{2, 1, 0});
  // By position: of the sinks only two rows are left.
  const std::vector<std::int32_t> positions = {1, 3, 50, 60};
  REQUIRE(scores(RowLayout<>::uniform(1, 4), 4, HostPositions::shared(positions.data())) ==
          V{3, 2, 0, 1});
}

TEST_CASE("recency ranks stay exact integers up to 2^24 rows", "[ops][baseline][large]") {
  TestResources res({.threads = 1});
  constexpr std::int64_t most = std::int64_t{1} << 24;
  FarMemory<float> memory(most + 1);
  const auto call = [&](std::int64_t rows, std::int64_t sinks) {
    return [&, rows, sinks] {
      recency_scores(res, HostPositions(), sinks,
                     kvevict::ScoreView<>{memory.data(), RowLayout<>::uniform(1, rows)});
    };
  };
  call(most, 0)();
  REQUIRE(memory.data()[most - 1] == static_cast<float>(most - 1));
  REQUIRE(memory.data()[most - 2] == static_cast<float>(most - 2));
  REQUIRE(refused(call(most + 1, 0), kvevict::ErrorKind::unsupported) ==
          "rows is 16777217, must be at most 2^24 for scores that are ranks");
  REQUIRE(refused(call(3, -1)) == "sinks is -1, must be >= 0");
}
