// SPDX-License-Identifier: Apache-2.0
#include "kvevict/math/rope.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "core/errors.hpp"

using kvevict::require_valid;
using kvevict::Rope;
using kvevict::RopePairing;
using kvevict_test::refused;

TEST_CASE("frequencies fall from one to almost one over theta", "[math][rope]") {
  const Rope rope{.theta = 1e5};
  REQUIRE(rope.rotated(64) == 64);
  REQUIRE(rope.frequency(0, 64) == 1.0);
  REQUIRE(rope.frequency(16, 64) == Approx(std::sqrt(1e-5)).epsilon(1e-14));
  REQUIRE(rope.frequency(31, 64) == Approx(std::pow(1e5, -62.0 / 64.0)).epsilon(1e-14));
  // A partial rotary dimension takes its place in the exponent.
  const Rope partial{.theta = 1e5, .rotary_dim = 32};
  REQUIRE(partial.rotated(64) == 32);
  REQUIRE(partial.frequency(8, 64) == Approx(std::sqrt(1e-5)).epsilon(1e-14));
}

TEST_CASE("a given table of frequencies is used as it is", "[math][rope]") {
  const std::vector<double> table = {1.0, 0.25, 0.125};
  const Rope rope{.theta = 1e5, .rotary_dim = 6, .frequencies = table};
  REQUIRE(rope.frequency(1, 8) == 0.25);
  REQUIRE(rope.frequency(2, 8) == 0.125);
}

TEST_CASE("pairs are half apart or adjacent", "[math][rope]") {
  const Rope half{};
  REQUIRE(half.first_channel(3) == 3);
  REQUIRE(half.second_channel(3, 16) == 11);
  const Rope partial{.rotary_dim = 8};
  REQUIRE(partial.second_channel(3, 16) == 7);
  const Rope adjacent{.pairing = RopePairing::adjacent};
  REQUIRE(adjacent.first_channel(3) == 6);
  REQUIRE(adjacent.second_channel(3, 16) == 7);
}

TEST_CASE("every rotated channel is in exactly one pair", "[math][rope]") {
  for (const RopePairing pairing : {RopePairing::half, RopePairing::adjacent}) {
    for (const std::int64_t rotary : {0, 2, 6, 16}) {
      const Rope rope{.pairing = pairing, .rotary_dim = rotary};
      std::vector<int> seen(16, 0);
      for (std::int64_t pair = 0; pair < rotary / 2; ++pair) {
        ++seen[static_cast<std::size_t>(rope.first_channel(pair))];
        ++seen[static_cast<std::size_t>(rope.second_channel(pair, 16))];
      }
      for (std::size_t c = 0; c < 16; ++c)
        REQUIRE(seen[c] == (c < static_cast<std::size_t>(rotary)));
    }
  }
}

TEST_CASE("pairings are read by name", "[math][rope]") {
  RopePairing pairing{};
  parse_parameter("rope_pairing", "adjacent", pairing);
  REQUIRE(pairing == RopePairing::adjacent);
  parse_parameter("rope_pairing", "half", pairing);
  REQUIRE(pairing == RopePairing::half);
  REQUIRE(refused([&] { parse_parameter("rope_pairing", "both", pairing); }) ==
          "rope_pairing is 'both', must be one of half, adjacent");
}

TEST_CASE("rotations that do not fit are refused with their bounds", "[math][rope]") {
  const std::vector<double> table(3, 1.0);
  const auto problem = [](const Rope& rope, std::int64_t dim) {
    return refused([&] { require_valid(rope, dim); });
  };
  REQUIRE(problem({}, 64) == "nothing was thrown");
  REQUIRE(problem({.rotary_dim = 0}, 7) == "nothing was thrown");
  REQUIRE(problem({.rotary_dim = 6, .frequencies = table}, 8) == "nothing was thrown");
  REQUIRE(problem({}, 7) == "rope.rotary_dim is 7, must be even");
  REQUIRE(problem({.rotary_dim = 5}, 8) == "rope.rotary_dim is 5, must be even");
  REQUIRE(problem({.rotary_dim = 10}, 8) ==
          "rope.rotary_dim is 10, must be -1 or in [0, dim], dim = 8");
  REQUIRE(problem({.rotary_dim = -2}, 8) ==
          "rope.rotary_dim is -2, must be -1 or in [0, dim], dim = 8");
  REQUIRE(problem({.theta = 0}, 8) == "rope.theta is 0, must be finite and > 0");
  REQUIRE(problem({.theta = std::numeric_limits<double>::infinity()}, 8) ==
          "rope.theta is inf, must be finite and > 0");
  REQUIRE(problem({.theta = std::nan("")}, 8) == "rope.theta is nan, must be finite and > 0");
  REQUIRE(problem({.frequencies = table}, 8) ==
          "rope.frequencies.size is 3, must be rotary_dim / 2 = 4");
  REQUIRE(problem({.attention_factor = 0}, 8) ==
          "rope.attention_factor is 0, must be finite and > 0");
}
