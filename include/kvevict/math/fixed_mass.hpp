// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "kvevict/core/config.hpp"

namespace kvevict {

/// A score as a mass: negative ones and NaN have none, infinite ones as much as the largest float.
KVEVICT_HOST_DEVICE inline float mass_of(float score) {
  if (!(score > 0.0f)) return 0.0f;
  return score < FLT_MAX ? score : FLT_MAX;
}

/// Bits of the masses of a head of `rows` rows as integers, so that their sum stays below 2^62.
KVEVICT_HOST_DEVICE inline int mass_bits(std::int64_t rows) {
  int bits = 62;
  while (bits > 31 && (std::int64_t{1} << (62 - bits)) < rows) --bits;
  return bits < 52 ? bits : 52;
}

/// mass / largest in units of 2^-bits, rounded down: sums of integers are the same in any order, on
/// any device. 1 for every row when all masses are zero.
KVEVICT_HOST_DEVICE inline std::int64_t fixed_mass(float score, float largest, int bits) {
  if (!(largest > 0.0f)) return 1;
  const double part = static_cast<double>(mass_of(score)) / static_cast<double>(largest);
  return static_cast<std::int64_t>(part * static_cast<double>(std::int64_t{1} << bits));
}

/// part / whole of two sums of fixed masses.
KVEVICT_HOST_DEVICE inline float mass_fraction(std::int64_t part, std::int64_t whole) {
  return static_cast<float>(static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace kvevict
