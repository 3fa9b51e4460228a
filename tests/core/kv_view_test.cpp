// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/kv_view.hpp"

#include <cstdint>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"

using kvevict::KvView;
using kvevict::MemorySpace;
using kvevict::RowLayout;
using kvevict::RowsView;
using HostPositions = kvevict::Positions<>;
using kvevict_test::refused;

TEST_CASE("a cache without memory is refused by name", "[core][kv_view]") {
  float memory[12] = {};
  using View = kvevict::KvView<float>;
  REQUIRE(refused([&] { View::hnd(nullptr, memory, 1, 3, 4); }) ==
          "keys is null, must be a pointer to the keys");
  REQUIRE(refused([&] { View::nhd(memory, nullptr, 1, 3, 4); }) ==
          "values is null, must be a pointer to the values");
  REQUIRE(refused([&] { View::ragged(memory, nullptr, kvevict::RowLayout<>::uniform(1, 3), 4); }) ==
          "values is null, must be a pointer to the values");
  REQUIRE(View::hnd(nullptr, nullptr, 2, 0, 4).heads() == 2);
}

TEST_CASE("contiguous caches are addressed head first or row first", "[core][kv_view]") {
  std::vector<float> k(2 * 3 * 4);
  std::vector<float> v(2 * 3 * 4);
  const auto hnd = KvView<float>::hnd(k.data(), v.data(), 2, 3, 4);
  const auto nhd = KvView<float>::nhd(k.data(), v.data(), 2, 3, 4);
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < 3; ++i) {
      REQUIRE(&hnd.keys().head(h)(i, 2) == k.data() + (h * 3 + i) * 4 + 2);
      REQUIRE(&hnd.values().head(h)(i, 2) == v.data() + (h * 3 + i) * 4 + 2);
      REQUIRE(&nhd.keys().head(h)(i, 2) == k.data() + (i * 2 + h) * 4 + 2);
      REQUIRE(&nhd.values().head(h)(i, 2) == v.data() + (i * 2 + h) * 4 + 2);
    }
  }
  REQUIRE(hnd.heads() == 2);
  REQUIRE(hnd.rows(1) == 3);
  REQUIRE(hnd.layout().total() == 6);
}

TEST_CASE("ragged and per-head caches", "[core][kv_view]") {
  std::vector<float> k(40);
  std::vector<float> v(40);
  const std::vector<std::int64_t> offsets = {0, 2, 2, 7};
  const auto layout = RowLayout<>::ragged(offsets.data(), 3);
  const auto ragged = KvView<float>::ragged(k.data(), v.data(), layout, 4);
  REQUIRE(ragged.rows(1) == 0);
  REQUIRE(&ragged.values().head(2)(1, 3) == v.data() + (2 + 1) * 4 + 3);
  float* k_table[] = {k.data() + 20, k.data(), k.data() + 4};
  float* v_table[] = {v.data(), v.data() + 8, v.data() + 16};
  const auto per_head = KvView<float>::per_head(k_table, v_table, layout, 4);
  REQUIRE(&per_head.keys().head(0)(1, 0) == k.data() + 24);
  REQUIRE(&per_head.values().head(2)(0, 1) == v.data() + 17);
}

TEST_CASE("keys and values may differ in dimension and strides", "[core][kv_view]") {
  std::vector<kvevict::half> k(1000);
  std::vector<kvevict::half> v(1000);
  const KvView<kvevict::half> cache(RowsView<kvevict::half>::strided(k.data(), 2, 5, 24, 300, 30),
                                    RowsView<kvevict::half>::strided(v.data(), 2, 5, 16, 17, 40));
  REQUIRE(cache.keys().dim() == 24);
  REQUIRE(cache.values().dim() == 16);
  REQUIRE(cache.row_bytes() == (24 + 16) * 2);
  REQUIRE(KvView<float>::hnd(nullptr, nullptr, 0, 0, 16).row_bytes() == 128);
}

TEST_CASE("keys and values must hold the same rows", "[core][kv_view]") {
  std::vector<float> data(100);
  const auto rows = [&](const RowLayout<>& layout) {
    return RowsView<float>::packed(data.data(), layout, 2, 2);
  };
  const std::vector<std::int64_t> offsets = {0, 3, 8};
  REQUIRE(refused([&] {
            KvView<float>(rows(RowLayout<>::uniform(2, 4)), rows(RowLayout<>::uniform(3, 4)));
          }) == "values.heads is 3, must be equal to keys.heads 2");
  REQUIRE(refused([&] {
            KvView<float>(rows(RowLayout<>::uniform(2, 4)),
                          rows(RowLayout<>::ragged(offsets.data(), 2)));
          }) == "values.rows is different, must be equal to keys.rows for every head");
}

TEST_CASE("a cache without heads or rows is a cache", "[core][kv_view]") {
  const auto no_rows = KvView<float>::hnd(nullptr, nullptr, 2, 0, 8);
  REQUIRE(no_rows.heads() == 2);
  REQUIRE(no_rows.layout().total() == 0);
  REQUIRE(KvView<float>::hnd(nullptr, nullptr, 0, 5, 8).heads() == 0);
  REQUIRE(KvView<float>::nhd(nullptr, nullptr, 0, 5, 8).heads() == 0);
  REQUIRE(KvView<const float>().heads() == 0);
}

TEST_CASE("cache views convert to const and keep their positions", "[core][kv_view]") {
  std::vector<float> k(8);
  std::vector<std::int32_t> positions = {3, 9};
  const auto cache =
      KvView<float>::hnd(k.data(), k.data(), 2, 2, 2)
          .with_positions(
              kvevict::Positions<MemorySpace::host, std::int32_t>::shared(positions.data()));
  const KvView<const float> read_only = cache;
  REQUIRE(read_only.positions().row(1, read_only.layout())[1] == 9);
  REQUIRE(read_only.positions().is_shared());
  REQUIRE(&read_only.keys().head(1)(1, 1) == k.data() + 7);

  STATIC_REQUIRE(std::is_convertible_v<KvView<float>, KvView<const float>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<KvView<const float>, KvView<float>>);
  STATIC_REQUIRE_FALSE(
      std::is_convertible_v<KvView<float, MemorySpace::device>, KvView<const float>>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<KvView<float>, KvView<float, MemorySpace::device>>);
  // Positions of a cache that can be written can be written, those of a read-only one cannot.
  STATIC_REQUIRE(std::is_same_v<KvView<float>::position_type, std::int32_t>);
  STATIC_REQUIRE(std::is_same_v<KvView<const float>::position_type, const std::int32_t>);
}

TEST_CASE("positions are checked for ascending order", "[core][kv_view]") {
  std::vector<float> k(12);
  const auto cache = KvView<const float>::hnd(k.data(), k.data(), 2, 3, 2);
  REQUIRE_NOTHROW(require_ascending_positions(cache));
  const std::vector<std::int32_t> good = {0, 5, 9, 1, 2, 3};
  REQUIRE_NOTHROW(
      require_ascending_positions(cache.with_positions(HostPositions::packed(good.data()))));
  const std::vector<std::int32_t> twice = {0, 5, 9, 1, 2, 2};
  REQUIRE(refused([&] {
            require_ascending_positions(cache.with_positions(HostPositions::packed(twice.data())));
          }) == "positions[row] of head 1 is 2, must be above the position before it, 2");
}
