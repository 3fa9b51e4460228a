// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/positions.hpp"

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "kvevict/core/queries.hpp"

using kvevict::RowLayout;
using HostPositions = kvevict::Positions<>;
using WritablePositions = kvevict::Positions<kvevict::MemorySpace::host, std::int32_t>;

TEST_CASE("consecutive positions are not stored", "[core][positions]") {
  const auto layout = RowLayout<>::uniform(2, 5);
  REQUIRE_FALSE(HostPositions().stored());
  REQUIRE(HostPositions().row(1, layout)[4] == 4);
  const auto from_seven = HostPositions::consecutive(7);
  REQUIRE_FALSE(from_seven.stored());
  REQUIRE_FALSE(from_seven.is_shared());
  REQUIRE(from_seven.row(0, layout)[0] == 7);
  REQUIRE(from_seven.row(1, layout)[4] == 11);
}

TEST_CASE("stored positions are shared, packed or per head", "[core][positions]") {
  const std::vector<std::int64_t> offsets = {0, 2, 2, 5};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  const std::vector<std::int32_t> array = {1, 4, 6, 9, 12};

  const auto shared = HostPositions::shared(array.data());
  REQUIRE(shared.stored());
  REQUIRE(shared.is_shared());
  REQUIRE(shared.row(2, layout)[1] == 4);

  const auto packed = HostPositions::packed(array.data());
  REQUIRE(packed.stored());
  REQUIRE_FALSE(packed.is_shared());
  REQUIRE(packed.row(0, layout)[1] == 4);
  REQUIRE(packed.row(2, layout)[0] == 6);
  REQUIRE(packed.row(2, layout)[2] == 12);

  const std::int32_t* table[] = {array.data() + 3, nullptr, array.data()};
  const auto per_head = HostPositions::per_head(table);
  REQUIRE(per_head.stored());
  REQUIRE(per_head.row(0, layout)[1] == 12);
  REQUIRE(per_head.row(2, layout)[0] == 1);
}

TEST_CASE("writable positions convert to read-only ones in every form", "[core][positions]") {
  const auto layout = RowLayout<>::uniform(2, 2);
  std::vector<std::int32_t> array = {1, 4, 6, 9};
  std::int32_t* table[] = {array.data() + 2, array.data()};
  const HostPositions shared = WritablePositions::shared(array.data());
  const HostPositions packed = WritablePositions::packed(array.data());
  const HostPositions per_head = WritablePositions::per_head(table);
  const HostPositions consecutive = WritablePositions::consecutive(3);
  REQUIRE(shared.is_shared());
  REQUIRE(shared.row(1, layout)[0] == 1);
  REQUIRE(packed.row(1, layout)[0] == 6);
  REQUIRE(per_head.row(0, layout)[1] == 9);
  REQUIRE(consecutive.row(1, layout)[1] == 4);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<HostPositions, WritablePositions>);
  STATIC_REQUIRE_FALSE(
      std::is_convertible_v<kvevict::Positions<kvevict::MemorySpace::device>, HostPositions>);
}

TEST_CASE("rows below a position are counted with holes", "[core][positions]") {
  const std::vector<std::int32_t> array = {0, 1, 7, 8, 20};
  const kvevict::PositionRow<> stored{array.data(), 0};
  for (std::int64_t rows = 0; rows <= 5; ++rows) {
    for (std::int64_t bound = -2; bound <= 23; ++bound) {
      std::int64_t expected = 0;
      for (std::int64_t i = 0; i < rows; ++i) expected += stored[i] < bound ? 1 : 0;
      INFO("rows " << rows << ", bound " << bound);
      REQUIRE(stored.count_below(bound, rows) == expected);
    }
  }
  const kvevict::PositionRow<> consecutive{nullptr, 10};
  REQUIRE(consecutive.count_below(9, 5) == 0);
  REQUIRE(consecutive.count_below(12, 5) == 2);
  REQUIRE(consecutive.count_below(15, 5) == 5);
  // Bounds beyond 32 bits, as `sinks` and open window bounds are.
  REQUIRE(stored.count_below(std::numeric_limits<std::int64_t>::max(), 5) == 5);
  REQUIRE(stored.count_below(std::int64_t{1} << 40, 5) == 5);
  REQUIRE(stored.count_below(-(std::int64_t{1} << 40), 5) == 0);
}

TEST_CASE("queries have positions too", "[core][positions]") {
  using kvevict::QueryPositions;
  const std::vector<std::int32_t> array = {2, 5, 6};
  const std::int32_t* table[] = {array.data(), array.data() + 1};
  REQUIRE(QueryPositions<>::consecutive(10).at(3, 2) == 12);
  REQUIRE(QueryPositions<>::shared(array.data()).at(7, 1) == 5);
  REQUIRE(QueryPositions<>::per_head(table).at(1, 0) == 5);
  REQUIRE(QueryPositions<>::consecutive(10).skip(2).skip(1).at(0, 0) == 13);
  REQUIRE(QueryPositions<>::shared(array.data()).skip(1).at(0, 1) == 6);
  REQUIRE(QueryPositions<>::per_head(table).skip(1).at(0, 0) == 5);

  REQUIRE_FALSE(QueryPositions<>().given());
  REQUIRE(QueryPositions<>::consecutive(0).given());
  REQUIRE(QueryPositions<>::shared(array.data()).given());
  REQUIRE(QueryPositions<>::per_head(table).skip(1).given());

  using kvevict::PositionBound;
  REQUIRE(PositionBound<>().of(0) == std::numeric_limits<std::int64_t>::max());
  const auto window = PositionBound<>::at_first(QueryPositions<>::per_head(table));
  REQUIRE(window.of(0) == 2);
  REQUIRE(window.of(1) == 5);
}
