// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/rows_view.hpp"

#include <cstdint>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "core/far_memory.hpp"

using kvevict::MemorySpace;
using kvevict::RowLayout;
using kvevict::RowsView;
using kvevict_test::refused;

TEST_CASE("strided rows lie at base + head, row and channel strides", "[core][rows_view]") {
  std::vector<float> data(200);
  const auto view = RowsView<float>::strided(data.data(), 2, 3, 4, 100, 20, 3);
  REQUIRE(view.heads() == 2);
  REQUIRE(view.rows(1) == 3);
  REQUIRE(view.dim() == 4);
  REQUIRE(view.row_stride() == 20);
  REQUIRE(view.channel_stride() == 3);
  for (std::int64_t h = 0; h < 2; ++h) {
    const auto head = view.head(h);
    REQUIRE(head.rows == 3);
    REQUIRE(head.dim == 4);
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t c = 0; c < 4; ++c) {
        REQUIRE(&head(i, c) == data.data() + h * 100 + i * 20 + c * 3);
      }
    }
  }
}

TEST_CASE("packed rows follow the layout's offsets", "[core][rows_view]") {
  std::vector<float> data(100);
  const std::vector<std::int64_t> offsets = {0, 3, 3, 8};
  const auto view =
      RowsView<float>::packed(data.data(), RowLayout<>::ragged(offsets.data(), 3), 5, 7);
  REQUIRE(view.rows(1) == 0);
  REQUIRE(view.head(0).data == data.data());
  REQUIRE(view.head(2).data == data.data() + 3 * 7);
  REQUIRE(view.head(2).rows == 5);
  REQUIRE(&view.head(2)(4, 4) == data.data() + (3 + 4) * 7 + 4);
}

TEST_CASE("per-head rows start at the table's pointers", "[core][rows_view]") {
  std::vector<float> one(20);
  std::vector<float> two(20);
  float* table[] = {two.data(), one.data()};
  const auto view = RowsView<float>::per_head(table, RowLayout<>::uniform(2, 2), 4, 6);
  REQUIRE(view.head(0).data == two.data());
  REQUIRE(&view.head(1)(1, 3) == one.data() + 6 + 3);
}

TEST_CASE("row counts can be replaced where places do not follow from them", "[core][rows_view]") {
  std::vector<float> data(64);
  float* table[] = {data.data(), data.data() + 32};
  const std::vector<std::int64_t> offsets = {0, 1, 4};
  const auto fewer = RowLayout<>::ragged(offsets.data(), 2);
  for (const auto& view : {RowsView<float>::strided(data.data(), 2, 8, 4, 32, 4),
                           RowsView<float>::per_head(table, RowLayout<>::uniform(2, 8), 4, 4)}) {
    const auto compacted = view.with_layout(fewer);
    REQUIRE(compacted.rows(0) == 1);
    REQUIRE(compacted.rows(1) == 3);
    REQUIRE(compacted.head(1).data == data.data() + 32);
    REQUIRE(compacted.head(1).rows == 3);
    REQUIRE(view.rows(1) == 8);
    REQUIRE(refused([&] { view.with_layout(RowLayout<>::uniform(3, 1)); }) ==
            "layout.heads is 3, must be equal to 2");
  }
  const auto packed = RowsView<float>::packed(data.data(), RowLayout<>::uniform(2, 8), 4, 4);
  REQUIRE(refused([&] { packed.with_layout(fewer); }) ==
          "rows is packed, must be strided, per head or paged to change its row counts");
}

TEST_CASE("rows convert to const, never to another space", "[core][rows_view]") {
  std::vector<float> data(64);
  float* table[] = {data.data() + 32, data.data()};
  for (const auto& view :
       {RowsView<float>::strided(data.data(), 2, 4, 4, 32, 8, 2),
        RowsView<float>::packed(data.data(), RowLayout<>::uniform(2, 4), 4, 8, 2),
        RowsView<float>::per_head(table, RowLayout<>::uniform(2, 4), 4, 8, 2)}) {
    const RowsView<const float> read_only = view;
    for (std::int64_t h = 0; h < 2; ++h) {
      REQUIRE(&read_only.head(h)(3, 3) == &view.head(h)(3, 3));
    }
    REQUIRE(read_only.dim() == 4);
  }
  using Host = RowsView<float>;
  using ConstHost = RowsView<const float>;
  using Device = RowsView<float, MemorySpace::device>;
  STATIC_REQUIRE(std::is_convertible_v<Host, ConstHost>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<ConstHost, Host>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<Device, Host>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<Device, ConstHost>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<Host, Device>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<RowsView<kvevict::half>, Host>);
}

TEST_CASE("bad row views are refused with their bounds", "[core][rows_view]") {
  float data = 0;
  using V = RowsView<float>;
  REQUIRE(refused([&] { V::strided(nullptr, 1, 1, 1, 1, 1); }) ==
          "base is null, must be a pointer to the rows");
  REQUIRE(refused([&] { V::strided(&data, 1, 1, 0, 1, 1); }) == "dim is 0, must be >= 1");
  REQUIRE(refused([&] { V::strided(&data, 1, 1, 1, 1, 0); }) == "row_stride is 0, must be >= 1");
  REQUIRE(refused([&] { V::strided(&data, 1, 1, 1, 1, 1, -1); }) ==
          "channel_stride is -1, must be >= 1");
  REQUIRE(refused([&] { V::strided(&data, 1, -1, 1, 1, 1); }) == "rows is -1, must be >= 0");
  REQUIRE(refused([&] { V::packed(nullptr, RowLayout<>::uniform(1, 1), 1, 1); }) ==
          "base is null, must be a pointer to the rows");
  REQUIRE(refused([&] { V::per_head(nullptr, RowLayout<>::uniform(1, 1), 1, 1); }) ==
          "table is null, must be one pointer for each head");
  float* holes[] = {&data, nullptr};
  REQUIRE(refused([&] { V::per_head(holes, RowLayout<>::uniform(2, 1), 1, 1); }) ==
          "table[1] is null, must be a pointer to the head's rows");
  // Nothing to point to, nothing to refuse.
  const std::vector<std::int64_t> offsets = {0, 1, 1};
  REQUIRE(V::per_head(holes, RowLayout<>::ragged(offsets.data(), 2), 1, 1).rows(1) == 0);
  REQUIRE(V::strided(nullptr, 4, 0, 8, 0, 8).layout().total() == 0);
  REQUIRE(V::packed(nullptr, RowLayout<>::uniform(0, 9), 8, 8).heads() == 0);
}

TEST_CASE("row offsets are 64-bit in every form", "[core][rows_view]") {
  // Beyond 2^31 and 2^33 elements; only addresses are formed.
  constexpr std::int64_t row_stride = (std::int64_t{1} << 31) + 16;
  constexpr std::int64_t head_stride = (std::int64_t{1} << 33) + 64;
  constexpr std::int64_t channel_stride = (std::int64_t{1} << 30) + 2;
  kvevict_test::FarMemory<kvevict::half> far(5 * head_stride);
  using V = RowsView<kvevict::half>;
  const auto strided = V::strided(far.data(), 5, 3, 4, head_stride, row_stride, channel_stride);
  REQUIRE(far.offset(&strided.head(4)(2, 3)) ==
          4 * head_stride + 2 * row_stride + 3 * channel_stride);
  const std::vector<std::int64_t> offsets = {0, 2, 5};
  const auto layout = RowLayout<>::ragged(offsets.data(), 2);
  const auto packed = V::packed(far.data(), layout, 4, row_stride);
  REQUIRE(far.offset(&packed.head(1)(2, 3)) == 4 * row_stride + 3);
  kvevict::half* table[] = {far.data(), far.data() + 1};
  const auto per_head = V::per_head(table, layout, 4, row_stride, channel_stride);
  REQUIRE(far.offset(&per_head.head(1)(2, 3)) == 1 + 2 * row_stride + 3 * channel_stride);
  const std::int32_t ids[] = {1, 3};
  const kvevict::PageLayout page{2, 2, head_stride, row_stride, 8, channel_stride};
  const auto paged = V::paged(far.data(), page, {ids, 1, 2, 2, 4}, layout, 4);
  REQUIRE(far.offset(&paged.head(1)(2, 3)) == 3 * head_stride + row_stride + 3 * channel_stride);
}
