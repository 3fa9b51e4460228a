// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "dequantize.hpp"
#include "error.hpp"
#include "half.hpp"

namespace {

using namespace mini_llama;

std::vector<std::byte> from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  }
  return bytes;
}

std::vector<float> decode(TensorType type, const std::vector<std::byte>& blocks) {
  const TensorTypeInfo& info = tensor_type_info(type);
  std::vector<float> out(blocks.size() / info.block_bytes * info.block_elements);
  dequantize(type, blocks, out);
  return out;
}

TEST_CASE("mini_llama half: all values to float and back", "[mini_llama]") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = bits & 1023;
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    const float value = half_to_float(half);
    if (exponent == 31 && fraction != 0) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(half_to_float(float_to_half(value))));
      continue;
    }
    const double expected = exponent == 31  ? std::numeric_limits<double>::infinity()
                            : exponent == 0 ? std::ldexp(fraction, -24)
                                            : std::ldexp(1024 + fraction, exponent - 25);
    REQUIRE(value == static_cast<float>(sign * expected));
    REQUIRE(std::signbit(value) == (sign < 0));
    REQUIRE(float_to_half(value) == half);
  }
}

TEST_CASE("mini_llama half: rounding is to nearest, ties to even", "[mini_llama]") {
  for (std::uint16_t low = 0; low < 0x7c00; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    // The last step, to infinity, is taken as if 65536 were a half.
    const float above = high == 0x7c00 ? 65536.0f : half_to_float(high);
    const float middle = half_to_float(low) + (above - half_to_float(low)) / 2;
    const std::uint16_t even = low % 2 == 0 ? low : high;
    REQUIRE(float_to_half(middle) == even);
    REQUIRE(float_to_half(-middle) == (even | 0x8000));
    REQUIRE(float_to_half(std::nextafter(middle, 0.0f)) == low);
    REQUIRE(float_to_half(std::nextafter(middle, above)) == high);
  }
  CHECK(float_to_half(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(float_to_half(std::numeric_limits<float>::denorm_min()) == 0);
}

TEST_CASE("mini_llama dequantize: plain types", "[mini_llama]") {
  CHECK(decode(TensorType::f32, from_hex("0000c03f000000c0")) == std::vector{1.5f, -2.0f});
  CHECK(decode(TensorType::f16, from_hex("003e00c0")) == std::vector{1.5f, -2.0f});
  CHECK(decode(TensorType::bf16, from_hex("c03f00c0")) == std::vector{1.5f, -2.0f});
}

TEST_CASE("mini_llama dequantize: blocks packed by hand", "[mini_llama]") {
  // Element i of the block is the five-bit number (7 i + 3) mod 32, or its low four bits.
  std::array<int, 32> q{};
  for (int i = 0; i < 32; ++i) q[static_cast<std::size_t>(i)] = (7 * i + 3) % 32;
  std::vector<std::byte> nibbles;
  for (std::size_t i = 0; i < 16; ++i) {
    nibbles.push_back(static_cast<std::byte>(q[i] % 16 + q[i + 16] % 16 * 16));
  }
  std::uint32_t fifth = 0;
  for (std::size_t i = 0; i < 32; ++i) fifth |= (q[i] >= 16 ? 1u : 0u) << i;
  std::vector<std::byte> fifth_bits;
  for (int i = 0; i < 4; ++i) fifth_bits.push_back(static_cast<std::byte>(fifth >> (8 * i) & 255));

  const auto scale = from_hex("0034");    // 0.25
  const auto minimum = from_hex("00be");  // -1.5
  const auto join = [](std::initializer_list<std::vector<std::byte>> parts) {
    std::vector<std::byte> joined;
    for (const auto& part : parts) joined.insert(joined.end(), part.begin(), part.end());
    return joined;
  };
  const auto q4_0 = decode(TensorType::q4_0, join({scale, nibbles}));
  const auto q4_1 = decode(TensorType::q4_1, join({scale, minimum, nibbles}));
  const auto q5_0 = decode(TensorType::q5_0, join({scale, fifth_bits, nibbles}));
  const auto q5_1 = decode(TensorType::q5_1, join({scale, minimum, fifth_bits, nibbles}));
  std::vector<std::byte> signed_bytes = scale;
  for (const int value : q) signed_bytes.push_back(static_cast<std::byte>(value - 16));
  const auto q8_0 = decode(TensorType::q8_0, signed_bytes);
  for (std::size_t i = 0; i < 32; ++i) {
    INFO("element " << i);
    const auto value = static_cast<float>(q[i]);
    const auto low = static_cast<float>(q[i] % 16);
    CHECK(q4_0[i] == 0.25f * (low - 8));
    CHECK(q4_1[i] == 0.25f * low - 1.5f);
    CHECK(q5_0[i] == 0.25f * (value - 16));
    CHECK(q5_1[i] == 0.25f * value - 1.5f);
    CHECK(q8_0[i] == 0.25f * (value - 16));
  }
}

struct Golden {
  TensorType type;
  std::string_view block;
  std::vector<std::pair<std::size_t, float>> elements;
  double sum;
};

// Random blocks, decoded by the Python package gguf 0.19. All scales are powers of two and every
// product is exact, so the values must be equal.
TEST_CASE("mini_llama dequantize: blocks decoded by another implementation", "[mini_llama]") {
  const Golden golden = GENERATE(
      Golden{TensorType::q4_0,
             "00348b4ae5f1a94106a0956a26afbccdafe5",
             {{0, 0.75f}, {1, 0.5f}, {15, -0.75f}, {16, 0.0f}, {30, 0.5f}, {31, 1.5f}},
             1.75},
      Golden{TensorType::q4_1,
             "003400be62f90a945f5693c642276ad5ab2da739",
             {{0, -1.0f}, {1, 0.75f}, {15, 0.75f}, {16, 0.0f}, {30, 1.0f}, {31, -0.75f}},
             9.5},
      Golden{TensorType::q5_0,
             "00344551370e99b2d74c3427fa48d732a1df70aca1e9",
             {{0, 2.25f}, {1, -3.5f}, {15, -1.75f}, {16, 2.25f}, {30, -1.5f}, {31, -0.5f}},
             -10.25},
      Golden{TensorType::q5_1,
             "003400be26115901dd06f27f8f063cd25e19a621f9bd0ccc",
             {{0, 1.75f}, {1, 4.0f}, {15, 1.5f}, {16, 5.75f}, {30, -1.5f}, {31, 1.5f}},
             57.5},
      Golden{TensorType::q8_0,
             "003421397c1ec795ca7748dc03d17a88934d85527357a2e64647f03e2fb81f223f41",
             {{0, 8.25f}, {1, 14.25f}, {15, 19.25f}, {16, -30.75f}, {30, 15.75f}, {31, 16.25f}},
             125.75},
      Golden{TensorType::q4_k,
             "0034003892c58efd5185f0711ef7677a1f132a818d882195a100b28d6b236b82"
             "481bd9fe630dc3ce3be4ebcab72f45b35223479f6e794d57037e2cfde9e15a77"
             "89781e3721a557d8e5a703296dcb81db3f65cf9c1bdc5d1d8fc83f0b0bb4db71"
             "be572209851d3d24f4c0cf83fe4363f82f4759778955f6ced681cbea7179ced2"
             "c8f814a13472ff70ce369d8385452a44",
             {{0, 59.0f},
              {31, 5.0f},
              {32, -1.25f},
              {63, 11.25f},
              {100, 67.0f},
              {127, 173.75f},
              {128, 164.0f},
              {170, 17.75f},
              {200, 31.5f},
              {255, 46.5f}},
             13898.75},
      Golden{TensorType::q6_k,
             "f318337f08cd1e614f235d3f83bc45fee9ee0403a79be118544441317c9311f8"
             "5e0429b19f7ec0e156f65a3322e791b880ee995e3f0d307d2fbaf400693a179e"
             "0d027ed4e58be7a9ebc28a271d43a78855638144eb6603f7b2725de11fe6ac2f"
             "88a68182869793f0aad6ded8116e3ab51681c4a374fec70a68b3e4bdc92b3879"
             "87416c17ec90963ec766888ab4b80eba7c5cfd81121bea9cee1810dfd5169faf"
             "26cd7b5c30c8aba44d972299e8c7b41b9a1d2b0f180600a974d63b6332202c99"
             "8e82b2522c49c4394c7d73265b6aaf610034",
             {{0, -541.5f},
              {31, -756.0f},
              {32, 39.0f},
              {63, 615.0f},
              {100, -375.0f},
              {127, 128.25f},
              {128, 247.0f},
              {170, -517.5f},
              {200, -409.5f},
              {255, 169.75f}},
             -5230.0});
  INFO(tensor_type_info(golden.type).name);
  // Two blocks, to see that the second one follows the first.
  std::vector<std::byte> blocks = from_hex(golden.block);
  blocks.insert(blocks.end(), blocks.begin(), blocks.begin() + std::ssize(blocks));
  const std::vector<float> out = decode(golden.type, blocks);
  const std::size_t size = tensor_type_info(golden.type).block_elements;
  double sum = 0.0;
  for (std::size_t i = 0; i < size; ++i) {
    sum += out[i];
    CHECK(out[i] == out[i + size]);
  }
  CHECK(sum == golden.sum);
  for (const auto& [index, value] : golden.elements) CHECK(out[index] == value);
}

TEST_CASE("mini_llama dequantize: sizes that do not fit are errors", "[mini_llama]") {
  std::vector<float> out(32);
  std::vector<std::byte> blocks(18);
  CHECK_NOTHROW(dequantize(TensorType::q4_0, blocks, out));
  CHECK_THROWS_AS(dequantize(TensorType::q4_1, blocks, out), ArgumentError);
  CHECK_THROWS_AS(dequantize(TensorType::q4_0, blocks, std::span(out).first(31)), ArgumentError);
  CHECK_THROWS_AS(dequantize(TensorType::q4_0, std::span(blocks).first(17), out), ArgumentError);
}

}  // namespace
