// SPDX-License-Identifier: Apache-2.0
#include "kvevict/core/storage.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"
#include "kvevict/core/kv_view.hpp"

namespace storage_test {

using kvevict::channel_of;
using kvevict::float8_e4m3;
using kvevict::float8_e5m2;
using kvevict::half;
using kvevict::KvView;
using kvevict::q4_0;
using kvevict::q8_0;
using kvevict::RowsView;
using kvevict_test::refused;

namespace {

// What a format of 8 bits says by its definition: sign, exponent, fraction.
double by_definition(int bits, int fraction_bits, int bias) {
  const int sign = bits >> 7;
  const int exponent = (bits & 0x7f) >> fraction_bits;
  const double fraction = static_cast<double>(bits & ((1 << fraction_bits) - 1)) /
                          static_cast<double>(1 << fraction_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return sign == 0 ? magnitude : -magnitude;
}

}  // namespace

TEST_CASE("every 8-bit number is what its format defines", "[core][storage]") {
  for (int bits = 0; bits < 256; ++bits) {
    const auto code = static_cast<std::uint8_t>(bits);
    const float e4m3 = float8_e4m3{code};
    const float e5m2 = float8_e5m2{code};
    INFO("bits " << bits);
    if ((bits & 0x7f) == 0x7f) {
      REQUIRE(std::isnan(e4m3));
    } else {
      REQUIRE(static_cast<double>(e4m3) == by_definition(bits, 3, 7));
      REQUIRE(std::signbit(e4m3) == (bits >= 128));
    }
    if ((bits & 0x7f) > 0x7c) {
      REQUIRE(std::isnan(e5m2));
    } else if ((bits & 0x7f) == 0x7c) {
      REQUIRE(std::isinf(e5m2));
    } else {
      REQUIRE(static_cast<double>(e5m2) == by_definition(bits, 2, 15));
    }
  }
  REQUIRE(static_cast<float>(float8_e4m3{0x7e}) == 448.0f);
  REQUIRE(static_cast<float>(float8_e5m2{0x7b}) == 57344.0f);
}

TEST_CASE("blocks of 32 numbers have one scale", "[core][storage]") {
  q8_0 eight[2] = {};
  q4_0 four[2] = {};
  eight[1].scale = half(0.5f);
  four[1].scale = half(-2.0f);
  for (int i = 0; i < 32; ++i) eight[1].values[i] = static_cast<std::int8_t>(8 * i - 128);
  for (int i = 0; i < 16; ++i) {
    four[1].pairs[i] = static_cast<std::uint8_t>(i | ((15 - i) << 4));
  }
  for (std::int64_t i = 0; i < 32; ++i) {
    REQUIRE(channel_of(eight, 32 + i, 1) == 0.5f * static_cast<float>(8 * i - 128));
    const std::int64_t n = i < 16 ? i : 31 - i;
    REQUIRE(channel_of(four, 32 + i, 1) == -2.0f * static_cast<float>(n - 8));
  }
}

TEST_CASE("views of quantised rows count channels and step by units", "[core][storage]") {
  std::vector<q8_0> k(2 * 5 * 3);
  std::vector<q8_0> v(2 * 5 * 3);
  const auto cache = KvView<q8_0>::nhd(k.data(), v.data(), 2, 5, 96);
  REQUIRE(cache.keys().dim() == 96);
  REQUIRE(cache.row_bytes() == 2 * 3 * 34);
  REQUIRE(cache.keys().head(1).row(4) == k.data() + (4 * 2 + 1) * 3);
  REQUIRE(KvView<const q8_0>(cache).values().head(0).row(1) == v.data() + 6);
  REQUIRE(KvView<q8_0>::hnd(k.data(), v.data(), 2, 5, 96).keys().head(1).row(0) == k.data() + 15);
  for (const std::int64_t dim : {16, 80}) {
    const std::string text =
        "dim is " + std::to_string(dim) + ", must be a multiple of the channels of a block, 32";
    REQUIRE(refused([&] { KvView<q8_0>::hnd(k.data(), v.data(), 2, 5, dim); }) == text);
    REQUIRE(refused([&] { KvView<q8_0>::nhd(k.data(), v.data(), 2, 5, dim); }) == text);
    REQUIRE(refused([&] { KvView<q8_0>::ragged(k.data(), v.data(), {}, dim); }) == text);
  }
  REQUIRE(refused([&] { RowsView<q4_0>::strided(nullptr, 1, 0, 32, 1, 1, 2); },
                  kvevict::ErrorKind::unsupported) ==
          "channel_stride is 2, must be 1 for rows of blocks");
}

TEST_CASE("pages of quantised rows count blocks", "[core][storage]") {
  std::vector<q4_0> pool(4 * 8 * 2 * 3);  // [page][row][head][96 channels]
  const std::int32_t ids[] = {2, 0};
  const auto layout = kvevict::RowLayout<>::uniform(2, 11);
  const kvevict::PageTable<> table{ids, 1, 2, 2, 4};
  const auto nhd =
      KvView<q4_0>::paged_nhd(pool.data(), pool.data(), table, layout, 8, 2, 96).keys();
  REQUIRE(nhd.head(1).row(3) == pool.data() + 2 * 48 + 3 * 6 + 3);
  REQUIRE(nhd.head(1).row(10) == pool.data() + 2 * 6 + 3);
  const auto hnd =
      KvView<q4_0>::paged_hnd(pool.data(), pool.data(), table, layout, 8, 2, 96).keys();
  REQUIRE(hnd.head(1).row(3) == pool.data() + 2 * 48 + 24 + 3 * 3);
  REQUIRE(refused([&] {
            KvView<q4_0>::paged_nhd(pool.data(), pool.data(), table, layout, 8, 2, 80);
          }) == "dim is 80, must be a multiple of the channels of a block, 32");
}

TEST_CASE("8-bit numbers are scaled by head", "[core][storage]") {
  const std::vector<float8_e4m3> codes(2 * 3 * 4, float8_e4m3{0x38});  // 1.0
  const float scales[] = {0.25f, 3.0f};
  const auto plain = RowsView<const float8_e4m3>::strided(codes.data(), 2, 3, 4, 12, 4);
  const auto scaled = plain.with_scales(scales);
  REQUIRE(plain.head(1).value(2, 3) == 1.0f);
  REQUIRE(scaled.head(0).value(2, 3) == 0.25f);
  REQUIRE(scaled.head(1).value(0, 0) == 3.0f);
  REQUIRE(scaled.with_scales(nullptr).head(1).value(0, 0) == 1.0f);
  const float others[] = {0.5f, 2.0f};
  const auto cache = KvView<const float8_e4m3>(plain, plain).with_scales(scales, others);
  REQUIRE(cache.keys().head(1).value(0, 0) == 3.0f);
  REQUIRE(cache.values().head(1).value(0, 0) == 2.0f);
  REQUIRE(cache.row_bytes() == 8);
}

TEST_CASE("8-bit numbers are scaled by row", "[core][storage]") {
  std::vector<float8_e4m3> codes(2 * 3 * 4, float8_e4m3{0x38});  // 1.0
  // Scales of keys lie [head][row], those of values [row][head].
  std::vector<float> keys = {1, 2, 3, 4, 5, 6};
  std::vector<float> values = {10, 20, 30, 40, 50, 60};
  const auto key_scales = RowsView<float>::strided(keys.data(), 2, 3, 1, 3, 1);
  const auto value_scales = RowsView<float>::strided(values.data(), 2, 3, 1, 1, 2);
  const auto plain = KvView<float8_e4m3>::hnd(codes.data(), codes.data(), 2, 3, 4);
  const auto cache = plain.with_row_scales(key_scales, value_scales);
  REQUIRE_FALSE(plain.keys().scaled_by_row());
  REQUIRE(cache.keys().scaled_by_row());
  REQUIRE(cache.keys().head(1).value(2, 3) == 6.0f);
  REQUIRE(cache.values().head(0).value(2, 0) == 50.0f);
  REQUIRE(plain.row_bytes() == 8);
  REQUIRE(cache.row_bytes() == 16);

  const KvView<const float8_e4m3> read_only = cache;
  REQUIRE(read_only.values().head(1).value(1, 1) == 40.0f);
  const std::vector<std::int64_t> offsets = {0, 2, 3};
  const auto layout = kvevict::RowLayout<>::ragged(offsets.data(), 2);
  const auto fewer = cache.with_layout(layout, {});
  REQUIRE(fewer.keys().row_scales().rows(1) == 1);
  REQUIRE(fewer.values().head(1).value(0, 0) == 20.0f);

  // A row has one scale: the last that was given.
  const float of_heads[] = {0.25f, 3.0f};
  REQUIRE(cache.with_scales(of_heads, nullptr).keys().head(1).value(2, 3) == 3.0f);
  REQUIRE(cache.with_scales(of_heads, nullptr).values().head(1).value(2, 3) == 1.0f);
  REQUIRE(plain.with_scales(of_heads, of_heads)
              .with_row_scales(key_scales, value_scales)
              .keys()
              .head(1)
              .value(2, 3) == 6.0f);

  REQUIRE(refused([&] {
            plain.with_row_scales(RowsView<float>::strided(keys.data(), 2, 3, 2, 3, 1),
                                  value_scales);
          }) == "scales.dim is 2, must be 1: one for each row");
  REQUIRE(refused([&] {
            plain.with_row_scales(key_scales,
                                  RowsView<float>::strided(values.data(), 2, 2, 1, 1, 2));
          }) == "scales.rows is different, must be equal to those that are scaled, for every head");
  const auto packed = RowsView<float>::packed(keys.data(), plain.layout(), 1, 1);
  REQUIRE(refused([&] {
            plain.with_row_scales(packed, packed).with_layout(layout, {});
          }).substr(0, 15) == "rows is packed,");
}

TEST_CASE("scales of rows lie in pages beside those of the rows", "[core][storage]") {
  // Heads of 5 rows in pages of 4: page 2, then page 0.
  const std::int32_t ids[] = {2, 0};
  const kvevict::PageTable<> table{ids, 1, 2, 2, 3};
  const auto layout = kvevict::RowLayout<>::uniform(2, 5);
  std::vector<float8_e5m2> pool(3 * 4 * 2 * 8, float8_e5m2{0x3c});  // 1.0
  std::vector<float> scales(3 * 4 * 2);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<float>(i);
  const auto of_rows =
      RowsView<float>::paged(scales.data(), kvevict::PageLayout::nhd(4, 2, 1), table, layout, 1);
  const auto cache =
      KvView<float8_e5m2>::paged_nhd(pool.data(), pool.data(), table, layout, 4, 2, 8)
          .with_row_scales(of_rows, of_rows);
  REQUIRE(cache.keys().head(0).value(0, 7) == 16.0f);
  REQUIRE(cache.keys().head(1).value(3, 0) == 23.0f);
  REQUIRE(cache.values().head(1).value(4, 3) == 1.0f);
}

}  // namespace storage_test
