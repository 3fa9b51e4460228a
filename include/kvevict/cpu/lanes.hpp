// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "kvevict/core/config.hpp"

namespace kvevict::cpu {

/// Floats of a vector register; how many registers of a block's second operand a product takes at
/// once, and of how many sums: what fits the register file beside them.
#if defined(__AVX512F__)
inline constexpr std::int64_t lane_count = 16;
inline constexpr int vectors_at_once = 2;
inline constexpr int rows_at_once = 16;
#elif defined(__AVX__)
inline constexpr std::int64_t lane_count = 8;
inline constexpr int vectors_at_once = 2;
inline constexpr int rows_at_once = 12;
#elif defined(__aarch64__)
inline constexpr std::int64_t lane_count = 4;
inline constexpr int vectors_at_once = 4;
inline constexpr int rows_at_once = 16;
#else
inline constexpr std::int64_t lane_count = 4;
inline constexpr int vectors_at_once = 2;
inline constexpr int rows_at_once = 8;
#endif

/// Calls `body` with 0 to n - 1 as constants, so that what they index can live in registers at
/// every level of optimisation.
template <int n, class Body>
void unroll(Body&& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (body(std::integral_constant<int, i>()), ...); }
  (std::make_integer_sequence<int, n>());
}

/// A register of floats, one of bits or of what a comparison says (all bits set: true). Operators
/// act element by element, for Clang and GCC alike.
using FloatLanes [[gnu::vector_size(lane_count * 4)]] = float;
using BitLanes [[gnu::vector_size(lane_count * 4)]] = std::int32_t;

inline FloatLanes load_lanes(const float* from) {
  FloatLanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

inline void store_lanes(const FloatLanes& lanes, float* to) {
  std::memcpy(to, &lanes, sizeof lanes);
}

/// The same number in all lanes, also infinity and -0, which adding to zeros would lose.
inline FloatLanes broadcast(float value) {
  FloatLanes lanes;
  for (std::int64_t i = 0; i < lane_count; ++i) lanes[i] = value;
  return lanes;
}

/// FloatLanes of `a` where `mask` is set, else of `b`.
inline FloatLanes select_lanes(BitLanes mask, FloatLanes a, FloatLanes b) { return mask ? a : b; }

/// max(a, b); where `a` is NaN, b.
inline FloatLanes larger_lanes(FloatLanes a, FloatLanes b) { return select_lanes(a > b, a, b); }

inline BitLanes bits_of(FloatLanes lanes) {
  BitLanes bits;
  std::memcpy(&bits, &lanes, sizeof bits);
  return bits;
}
inline FloatLanes floats_of(BitLanes bits) {
  FloatLanes lanes;
  std::memcpy(&lanes, &bits, sizeof lanes);
  return lanes;
}

/// exp_nonpositive of every lane: its steps, which say why.
inline FloatLanes exp_lanes(FloatLanes x) {
  const FloatLanes magic = broadcast(12582912.0f);
  const FloatLanes shifted = x * 1.44269504089f + magic;
  const FloatLanes n = shifted - magic;
  const FloatLanes r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  FloatLanes p = r * (1.0f / 5040.0f) + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const BitLanes exponent = (bits_of(shifted) - (0x4b400000 - 127)) << 23;
  const BitLanes below = x < broadcast(-87.3f);
  return floats_of(bits_of(p * floats_of(exponent)) & ~below);
}

/// Sum and maximum of all lanes, in pairs.
inline float sum_of_lanes(FloatLanes lanes) {
  float values[lane_count];
  store_lanes(lanes, values);
  for (std::int64_t width = lane_count / 2; width > 0; width /= 2) {
    for (std::int64_t i = 0; i < width; ++i) values[i] += values[i + width];
  }
  return values[0];
}

inline float largest_lane(FloatLanes lanes) {
  float values[lane_count];
  store_lanes(lanes, values);
  for (std::int64_t width = lane_count / 2; width > 0; width /= 2) {
    for (std::int64_t i = 0; i < width; ++i) {
      values[i] = values[i] > values[i + width] ? values[i] : values[i + width];
    }
  }
  return values[0];
}

}  // namespace kvevict::cpu
