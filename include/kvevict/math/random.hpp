// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/core/config.hpp"

namespace kvevict {

/// Counter-based generator: 64 well-mixed bits for (seed, stream, counter), the same on every
/// backend and in any order of evaluation. Two rounds of the SplitMix64 finaliser (Steele, Lea,
/// Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014) over the combined key.
KVEVICT_HOST_DEVICE constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream,
                                                        std::uint64_t counter) {
  const auto mix = [](std::uint64_t z) {
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  };
  return mix(mix(mix(seed) ^ stream) ^ counter);
}

/// Uniform in [0, 1) with 24 bits.
KVEVICT_HOST_DEVICE constexpr float random_uniform(std::uint64_t seed, std::uint64_t stream,
                                                   std::uint64_t counter) {
  // By way of 32 bits: vector registers convert signed integers of that width on every machine.
  return static_cast<float>(static_cast<std::int32_t>(random_bits(seed, stream, counter) >> 40)) *
         0x1p-24f;
}

/// Standard normal (Box and Muller 1958), from 53 bits each of two draws.
KVEVICT_HOST_DEVICE inline double random_normal(std::uint64_t seed, std::uint64_t stream,
                                                std::uint64_t counter) {
  constexpr double two_pi = 6.283185307179586;
  const std::uint64_t radius = random_bits(seed, stream, 2 * counter) >> 11;
  const std::uint64_t angle = random_bits(seed, stream, 2 * counter + 1) >> 11;
  const double uniform = static_cast<double>(radius + 1) * 0x1p-53;  // in (0, 1]
  return std::sqrt(-2.0 * std::log(uniform)) *
         std::cos(two_pi * (static_cast<double>(angle) * 0x1p-53));
}

}  // namespace kvevict
