// SPDX-License-Identifier: Apache-2.0
#include "kvevict/math/random.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "catch.hpp"

using kvevict::random_bits;
using kvevict::random_uniform;

TEST_CASE("the generator's outputs are pinned", "[math][random]") {
  // From the published constants, with Python integers. Another output would change every stored
  // random selection.
  constexpr std::uint64_t all = ~std::uint64_t{0};
  STATIC_REQUIRE(random_bits(0, 0, 0) == 0x238275bc38fcbe91u);
  STATIC_REQUIRE(random_bits(1, 0, 0) == 0xb18a02f46d8d86c3u);
  STATIC_REQUIRE(random_bits(0, 1, 0) == 0x44e5b98100c67fb0u);
  STATIC_REQUIRE(random_bits(0, 0, 1) == 0x2f32a78496c67c60u);
  STATIC_REQUIRE(random_bits(42, 3, 1000000) == 0x1b835b4b72f6118du);
  STATIC_REQUIRE(random_bits(all, all, all) == 0x595b17f487c0e71bu);
  STATIC_REQUIRE(random_uniform(0, 0, 0) == 0.13870936632156372f);
  STATIC_REQUIRE(random_uniform(42, 3, 1000000) == 0.10747307538986206f);
}

TEST_CASE("uniform numbers fill [0, 1) along each argument", "[math][random]") {
  constexpr std::size_t bins = 64;
  constexpr std::uint64_t draws = 65536;
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<int> histogram(bins, 0);
    double sum = 0;
    double product = 0;
    float previous = 0.5f;
    for (std::uint64_t i = 0; i < draws; ++i) {
      const float u = random_uniform(axis == 0 ? i : 7, axis == 1 ? i : 8, axis == 2 ? i : 9);
      REQUIRE((u >= 0.0f && u < 1.0f));
      ++histogram[static_cast<std::size_t>(u * static_cast<float>(bins))];
      sum += static_cast<double>(u);
      product += (static_cast<double>(u) - 0.5) * (static_cast<double>(previous) - 0.5);
      previous = u;
    }
    // Chi-square with 63 degrees of freedom has mean 63 and deviation 11.2; the mean of 65,536
    // numbers deviates by 0.0011, the correlation of neighbours by 1/256. Five deviations each.
    const double expected = static_cast<double>(draws) / bins;
    double chi_square = 0;
    for (const int count : histogram)
      chi_square += (count - expected) * (count - expected) / expected;
    INFO("axis " << axis);
    REQUIRE(std::abs(chi_square - 63.0) < 5 * 11.2);
    REQUIRE(std::abs(sum / draws - 0.5) < 5 * 0.00113);
    REQUIRE(std::abs(product / draws * 12.0) < 5.0 / 256.0);
  }
}

TEST_CASE("one changed input bit changes half of the output bits", "[math][random]") {
  double flipped = 0;
  int pairs = 0;
  for (std::uint64_t base = 0; base < 50; ++base) {
    for (int bit = 0; bit < 64; ++bit) {
      const std::uint64_t other = base ^ (std::uint64_t{1} << bit);
      flipped += std::popcount(random_bits(base, 1, 2) ^ random_bits(other, 1, 2));
      flipped += std::popcount(random_bits(1, base, 2) ^ random_bits(1, other, 2));
      flipped += std::popcount(random_bits(1, 2, base) ^ random_bits(1, 2, other));
      pairs += 3;
    }
  }
  // 9,600 pairs of 64 bits: the mean deviates by 0.04 bits.
  REQUIRE(std::abs(flipped / pairs - 32.0) < 0.25);
}
