// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kvevict/core/error.hpp"
#include "kvevict/math/rope.hpp"

namespace kvevict {

/// The positions that future queries will stand at: [next_position, next_position + future).
/// `next_position` is the number of tokens seen, never the number of rows, and has no default.
struct FutureSpan {
  std::int64_t next_position = -1;
  std::int64_t future = 512;
};

/// Mean over a span of positions of each RoPE pair's rotation: the block [[cosine, -sine], [sine,
/// cosine]].
struct MeanRotation {
  std::vector<double> cosine;  ///< [rotary_dim / 2]
  std::vector<double> sine;    ///< [rotary_dim / 2]
};

/// Averages the rotations of the span, attention factor included, into `rotation`, whose memory is
/// used again. O(future * rotary_dim).
inline void mean_rotation(const Rope& rope, std::int64_t dim, const FutureSpan& span,
                          MeanRotation& rotation) {
  require_valid(rope, dim);
  require(span.next_position >= 0, "next_position", span.next_position, "given and >=", 0);
  require(span.future >= 1, "future", span.future, ">=", 1);
  rotation.cosine.clear();
  rotation.sine.clear();
  for (std::int64_t pair = 0; pair < rope.rotated(dim) / 2; ++pair) {
    const double frequency = rope.frequency(pair, dim);
    double cosine = 0.0;
    double sine = 0.0;
    for (std::int64_t p = span.next_position; p < span.next_position + span.future; ++p) {
      cosine += std::cos(static_cast<double>(p) * frequency);
      sine += std::sin(static_cast<double>(p) * frequency);
    }
    const double weight = rope.attention_factor / static_cast<double>(span.future);
    rotation.cosine.push_back(cosine * weight);
    rotation.sine.push_back(sine * weight);
  }
}

/// The same, returned.
inline MeanRotation mean_rotation(const Rope& rope, std::int64_t dim, const FutureSpan& span) {
  MeanRotation rotation;
  mean_rotation(rope, dim, span, rotation);
  return rotation;
}

/// The rotation that changes nothing.
inline MeanRotation no_rotation(const Rope& rope, std::int64_t dim) {
  const auto pairs = static_cast<std::size_t>(rope.rotated(dim) / 2);
  return {std::vector<double>(pairs, 1.0), std::vector<double>(pairs, 0.0)};
}

}  // namespace kvevict
