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

/// Powers of two for logits in base 2, relative to an integer reference in each lane: 2^(x -
/// reference) for x <= reference + 1/2, within 2 units in the last place; 0 from 127 below the
/// reference on; NaN for NaN and for infinity. x is divided into an integer and a rest before the
/// reference is subtracted, so results for two references are an exact power of two apart; from a
/// magnitude of 2^21 on, where logits have two bits behind the point, the difference is taken
/// first.
class PowerLanes {
 public:
  explicit PowerLanes(FloatLanes reference) {
    const FloatLanes limit = broadcast(2097152.0f);
    const FloatLanes zero = broadcast(0.0f);
    const BitLanes exact = (reference < limit) & (reference > -limit);
    base_ = select_lanes(exact, zero, reference);
    const FloatLanes rest = select_lanes(exact, reference, zero);
    lowest_ = rest - 127.0f;
    bias_ = bits_of(rest + magic) - 127;
  }

  FloatLanes operator()(FloatLanes x) const {
    const FloatLanes z = larger_lanes(lowest_, x - base_);
    const FloatLanes shifted = z + magic;
    const FloatLanes r = z - (shifted - magic);
    // 1 + r q(r) with q interpolating (2^r - 1) / r at the six Chebyshev nodes of |r| <= 1/2: 1e-8
    // off at most, and exact at integers.
    FloatLanes p = r * 1.54531629e-4f + 1.33908634e-3f;
    p = p * r + 9.61808302e-3f;
    p = p * r + 5.55035695e-2f;
    p = p * r + 2.40226507e-1f;
    p = p * r + 6.93147182e-1f;
    p = p * r + 1.0f;
    return p * floats_of((bits_of(shifted) - bias_) << 23);
  }

 private:
  // 1.5 * 2^23: adding it rounds to an integer, which then is in the low bits.
  static constexpr float magic = 12582912.0f;
  FloatLanes base_;
  FloatLanes lowest_;
  BitLanes bias_;
};

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
