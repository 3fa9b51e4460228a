// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/array.hpp"

#include <cstdint>
#include <vector>

#include "catch.hpp"
#include "kvevict/core/layout_storage.hpp"

using kvevict::Array;
using kvevict::LayoutStorage;
using kvevict::MemorySpace;
using kvevict::RowLayout;

namespace {

struct HostResources {
  static constexpr MemorySpace space = MemorySpace::host;
};

}  // namespace

TEST_CASE("an array keeps its contents when it grows, and is copied whole", "[core][array]") {
  HostResources res;
  Array<double> array;
  REQUIRE(array.size() == 0);
  const std::vector<double> given = {1.0, 2.0, 3.0};
  array.assign(res, given.data(), 3);
  array.resize(res, 1000);
  REQUIRE(array.size() == 1000);
  REQUIRE(std::vector<double>(array.data(), array.data() + 3) == given);
  const Array<double> copy = array;
  array.resize(res, 2);
  array.fill_zero(res);
  REQUIRE(array.size() == 2);
  REQUIRE(array.data()[1] == 0.0);
  REQUIRE(copy.size() == 1000);
  REQUIRE(std::vector<double>(copy.data(), copy.data() + 3) == given);
}

TEST_CASE("a stored layout outlives what it was made from", "[core][array]") {
  HostResources res;
  LayoutStorage<> stored;
  REQUIRE(stored.view().heads() == 0);
  {
    const std::vector<std::int64_t> offsets = {0, 4, 4, 11};
    stored.assign(res, RowLayout<>::ragged(offsets.data(), 3));
  }
  const RowLayout<> ragged = stored.view();
  REQUIRE_FALSE(ragged.is_uniform());
  REQUIRE(ragged.heads() == 3);
  REQUIRE(ragged.rows(0) == 4);
  REQUIRE(ragged.rows(1) == 0);
  REQUIRE(ragged.offset(2) == 4);
  REQUIRE(ragged.total() == 11);
  // Equal counts are stored as such, however they were given.
  const std::vector<std::int64_t> equal = {0, 4, 8};
  stored.assign(res, RowLayout<>::ragged(equal.data(), 2));
  REQUIRE(stored.view().is_uniform());
  REQUIRE(stored.view().rows(1) == 4);
  REQUIRE(stored.view().heads() == 2);
  stored.assign(res, RowLayout<>::uniform(2, 3).repeated(2));
  REQUIRE(stored.view().heads() == 4);
  REQUIRE(stored.view().total() == 12);
  stored.clear();
  REQUIRE(stored.view().heads() == 0);
  REQUIRE(stored.view().total() == 0);
}
