// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/row_layout.hpp"

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"

using kvevict::RowLayout;
using kvevict_test::refused;

TEST_CASE("a uniform layout holds the same number of rows in each head", "[core][row_layout]") {
  const auto layout = RowLayout<>::uniform(3, 5);
  REQUIRE(layout.heads() == 3);
  REQUIRE(layout.total() == 15);
  REQUIRE(layout.longest() == 5);
  REQUIRE(layout.is_uniform());
  for (std::int64_t h = 0; h < 3; ++h) {
    REQUIRE(layout.rows(h) == 5);
    REQUIRE(layout.offset(h) == 5 * h);
  }
}

TEST_CASE("a ragged layout reads its offsets", "[core][row_layout]") {
  const std::vector<std::int64_t> offsets = {0, 4, 4, 11};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  REQUIRE(layout.heads() == 3);
  REQUIRE(layout.total() == 11);
  REQUIRE(layout.longest() == 7);
  REQUIRE_FALSE(layout.is_uniform());
  REQUIRE(layout.rows(0) == 4);
  REQUIRE(layout.rows(1) == 0);
  REQUIRE(layout.rows(2) == 7);
  REQUIRE(layout.offset(1) == 4);
  REQUIRE(layout.offset(2) == 4);
}

TEST_CASE("layouts without heads or rows are empty", "[core][row_layout]") {
  const std::int64_t zero = 0;
  for (const RowLayout<>& layout :
       {RowLayout<>(), RowLayout<>::uniform(0, 5), RowLayout<>::ragged(&zero, 0)}) {
    REQUIRE(layout.heads() == 0);
    REQUIRE(layout.total() == 0);
    REQUIRE(layout.longest() == 0);
  }
  REQUIRE(RowLayout<>::uniform(3, 0).total() == 0);
}

TEST_CASE("repeated gives every head its blocks one after another", "[core][row_layout]") {
  const std::vector<std::int64_t> offsets = {0, 4, 4, 11};
  const auto group = GENERATE(std::int64_t{1}, std::int64_t{2}, std::int64_t{3});
  for (const RowLayout<>& layout :
       {RowLayout<>::uniform(3, 5), RowLayout<>::ragged(offsets.data(), 3)}) {
    const auto blocks = layout.repeated(group);
    REQUIRE(blocks.heads() == 3 * group);
    REQUIRE(blocks.total() == layout.total() * group);
    REQUIRE(blocks.longest() == layout.longest());
    std::int64_t expected = 0;
    for (std::int64_t block = 0; block < blocks.heads(); ++block) {
      REQUIRE(blocks.rows(block) == layout.rows(block / group));
      REQUIRE(blocks.offset(block) == expected);
      expected += blocks.rows(block);
    }
    REQUIRE(expected == blocks.total());
    // Repeating twice multiplies.
    const auto twice = blocks.repeated(2);
    REQUIRE(twice.heads() == 6 * group);
    REQUIRE(twice.offset(5) == layout.repeated(2 * group).offset(5));
  }
}

TEST_CASE("bad layouts are refused with their bounds", "[core][row_layout]") {
  REQUIRE(refused([] { RowLayout<>::uniform(-1, 4); }) == "heads is -1, must be >= 0");
  REQUIRE(refused([] { RowLayout<>::uniform(1, -4); }) == "rows is -4, must be >= 0");
  // Volatile, or compilers warn of what is tested here.
  const std::int64_t* volatile none = nullptr;
  REQUIRE(refused([&] { RowLayout<>::ragged(none, 2); }) ==
          "offsets is null, must be an array of heads + 1 entries");
  const std::vector<std::int64_t> late = {1, 4};
  REQUIRE(refused([&] { RowLayout<>::ragged(late.data(), 1); }) == "offsets[0] is 1, must be 0");
  const std::vector<std::int64_t> falling = {0, 4, 3};
  REQUIRE(refused([&] { RowLayout<>::ragged(falling.data(), 2); }) ==
          "offsets[head + 1] is 3, must be >= 4");
  REQUIRE(refused([&] { RowLayout<>::ragged(falling.data(), -1); }) == "heads is -1, must be >= 0");
}

TEST_CASE("row counts are compared head by head", "[core][row_layout]") {
  const std::vector<std::int64_t> equal = {0, 5, 10, 15};
  const std::vector<std::int64_t> other = {0, 4, 10, 15};
  const auto uniform = RowLayout<>::uniform(3, 5);
  REQUIRE(same_rows(uniform, RowLayout<>::uniform(3, 5)));
  REQUIRE(same_rows(uniform, RowLayout<>::ragged(equal.data(), 3)));
  REQUIRE(same_rows(RowLayout<>::ragged(equal.data(), 3), uniform));
  REQUIRE_FALSE(same_rows(uniform, RowLayout<>::ragged(other.data(), 3)));
  REQUIRE_FALSE(same_rows(uniform, RowLayout<>::uniform(5, 3)));
  REQUIRE_FALSE(same_rows(uniform, RowLayout<>::uniform(3, 6)));
  REQUIRE(same_rows(RowLayout<>::uniform(3, 5).repeated(2), RowLayout<>::uniform(6, 5)));
}

TEST_CASE("totals and offsets beyond 2^31 rows are exact", "[core][row_layout]") {
  const auto layout = RowLayout<>::uniform(1000, std::int64_t{1} << 24);
  REQUIRE(layout.total() == 1000 * (std::int64_t{1} << 24));
  REQUIRE(layout.offset(999) == 999 * (std::int64_t{1} << 24));
  REQUIRE(layout.repeated(8).offset(7999) == 7999 * (std::int64_t{1} << 24));
}

TEST_CASE("a device layout's shapes come from its offsets on the host", "[core][row_layout]") {
  using Device = RowLayout<kvevict::MemorySpace::device>;
  const std::vector<std::int64_t> offsets = {0, 4, 4, 11};
  const std::int64_t unreadable = 0;
  const auto layout = Device::ragged(&unreadable, offsets.data(), 3);
  REQUIRE(layout.heads() == 3);
  REQUIRE(layout.total() == 11);
  REQUIRE(layout.longest() == 7);
  REQUIRE_FALSE(layout.is_uniform());
  REQUIRE(layout.offsets() == &unreadable);
  const RowLayout<> host = layout.repeated(2).host();
  REQUIRE(host.offsets() == offsets.data());
  REQUIRE(host.heads() == 6);
  REQUIRE(host.total() == 22);
  REQUIRE(host.longest() == 7);
  REQUIRE(host.rows(5) == 7);
  REQUIRE(host.offset(5) == 15);

  const RowLayout<> uniform = Device::uniform(3, 5).host();
  REQUIRE(uniform.is_uniform());
  REQUIRE(uniform.rows(2) == 5);
  REQUIRE(uniform.total() == 15);
  // On the host it is the layout itself.
  const auto same = RowLayout<>::ragged(offsets.data(), 3).repeated(2);
  REQUIRE(same.host().offsets() == offsets.data());
  REQUIRE(same.host().heads() == 6);
}

TEST_CASE("device layouts are compared by what the host knows", "[core][row_layout]") {
  using Device = RowLayout<kvevict::MemorySpace::device>;
  const std::vector<std::int64_t> offsets = {0, 4, 4, 11};
  const std::vector<std::int64_t> same = offsets;
  const std::vector<std::int64_t> other = {0, 4, 5, 11};
  const std::vector<std::int64_t> equal = {0, 5, 10, 15};
  const std::int64_t unreadable = 0;
  const auto layout = Device::ragged(&unreadable, offsets.data(), 3);
  REQUIRE(same_rows(layout, Device::ragged(&unreadable, same.data(), 3)));
  REQUIRE_FALSE(same_rows(layout, Device::ragged(&unreadable, other.data(), 3)));
  REQUIRE(same_rows(Device::uniform(3, 5), Device::ragged(&unreadable, equal.data(), 3)));
}

TEST_CASE("bad device layouts are refused with their bounds", "[core][row_layout]") {
  using Device = RowLayout<kvevict::MemorySpace::device>;
  // Volatile, or compilers warn of what is tested here.
  const std::int64_t* volatile none = nullptr;
  const std::vector<std::int64_t> falling = {0, 4, 3};
  const std::int64_t unreadable = 0;
  REQUIRE(refused([&] { Device::ragged(none, falling.data(), 1); }) ==
          "device_offsets is null, must be an array of heads + 1 entries");
  REQUIRE(refused([&] { Device::ragged(&unreadable, none, 1); }) ==
          "offsets is null, must be an array of heads + 1 entries");
  REQUIRE(refused([&] { Device::ragged(&unreadable, falling.data(), 2); }) ==
          "offsets[head + 1] is 3, must be >= 4");
}
