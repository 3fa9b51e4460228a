// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/ops/select_top.hpp"
#include "reference/selection.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"

namespace protected_counts_test {

using namespace kvevict_test;
using kvevict::PositionSpan;
using kvevict::Protect;
using kvevict::RowLayout;
using HostPositions = kvevict::Positions<>;

namespace {

// One value behind the counts, which must stay as it is.
std::vector<std::int64_t> counts_of(const RowLayout<>& layout, const HostPositions& positions,
                                    const Protect& protect) {
  TestResources res({.threads = 2});
  std::vector<std::int64_t> held(static_cast<std::size_t>(layout.heads()) + 1, -5);
  protected_counts(res, positions, protect, layout, held.data());
  REQUIRE(held.back() == -5);
  held.pop_back();
  return held;
}

}  // namespace

TEST_CASE("protected rows are counted head by head", "[ops][protected_counts]") {
  const Random random(8);
  std::uint64_t next = 0;
  const auto draw = [&](std::int64_t count) { return random.integer(next++, count); };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> offsets = {0};
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t*> table;
    const PositionSpan span = {static_cast<std::int32_t>(draw(30)),
                               static_cast<std::int32_t>(30 + draw(30))};
    const Protect protect{
        .sinks = draw(8), .recent = draw(5), .spans = {&span, round % 2 == 0 ? 1u : 0u}};
    std::vector<std::pair<std::int64_t, std::int64_t>> spans;
    for (const auto& s : protect.spans) spans.push_back({s.begin, s.end});
    std::vector<std::int64_t> expected;
    for (int h = 0; h < 4; ++h) {
      reference::Positions head;
      std::int64_t position = draw(4);
      for (std::int64_t i = draw(25); i > 0; --i, position += 1 + draw(4)) head.push_back(position);
      const reference::Rows held =
          reference::protected_rows(head, protect.sinks, protect.recent, spans);
      expected.push_back(static_cast<std::int64_t>(held.size()));
      positions.insert(positions.end(), head.begin(), head.end());
      offsets.push_back(static_cast<std::int64_t>(positions.size()));
    }
    for (std::size_t h = 0; h < 4; ++h) table.push_back(positions.data() + offsets[h]);
    const auto layout = RowLayout<>::ragged(offsets.data(), 4);
    INFO("round " << round);
    REQUIRE(counts_of(layout, HostPositions::packed(positions.data()), protect) == expected);
    REQUIRE(counts_of(layout, HostPositions::per_head(table.data()), protect) == expected);
  }
}

TEST_CASE("consecutive and shared positions protect alike in every head",
          "[ops][protected_counts]") {
  const std::vector<std::int64_t> offsets = {0, 10, 10, 12};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  const Protect protect{.sinks = 6, .recent = 3};
  using Counts = std::vector<std::int64_t>;
  REQUIRE(counts_of(layout, HostPositions(), protect) == Counts{9, 0, 2});
  REQUIRE(counts_of(layout, HostPositions::consecutive(4), protect) == Counts{5, 0, 2});
  const std::vector<std::int32_t> holes = {0, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  REQUIRE(counts_of(layout, HostPositions::shared(holes.data()), protect) == Counts{4, 0, 2});
  REQUIRE(counts_of(RowLayout<>(), HostPositions(), protect).empty());
}

TEST_CASE("bad rules are not counted", "[ops][protected_counts]") {
  REQUIRE(refused([] { counts_of(RowLayout<>::uniform(1, 4), {}, {.sinks = -3}); }) ==
          "protect.sinks is -3, must be >= 0");
}

}  // namespace protected_counts_test
