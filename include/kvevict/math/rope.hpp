// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvevict/core/error.hpp"
#include "kvevict/core/parameter.hpp"

namespace kvevict {

/// Which channels RoPE rotates together.
enum class RopePairing {
  half,     ///< (j, j + n/2): Hugging Face, GPT-NeoX
  adjacent  ///< (2j, 2j + 1): GGUF llama, original RoFormer
};

inline std::span<const EnumName<RopePairing>> enum_names(RopePairing) {
  static constexpr EnumName<RopePairing> names[] = {{RopePairing::half, "half"},
                                                    {RopePairing::adjacent, "adjacent"}};
  return names;
}

/// Rotary position embedding (arXiv 2104.09864): pair j of the first `rotary_dim` channels turns by
/// position * frequency(j), frequency(j) = theta^(-2j / rotary_dim) unless a table is given; both
/// outputs are scaled by `attention_factor` (YaRN). Channels from `rotary_dim` on stay as they are.
struct Rope {
  double theta = 10000.0;
  RopePairing pairing = RopePairing::half;
  std::int64_t rotary_dim = -1;  ///< -1: all channels
  std::span<const double> frequencies =
      {};  ///< [rotary_dim / 2] radians per position; empty: from theta
  double attention_factor = 1.0;

  std::int64_t rotated(std::int64_t dim) const { return rotary_dim < 0 ? dim : rotary_dim; }

  double frequency(std::int64_t pair, std::int64_t dim) const {
    if (!frequencies.empty()) return frequencies[static_cast<std::size_t>(pair)];
    return std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(rotated(dim)));
  }

  /// The two channels of a pair.
  std::int64_t first_channel(std::int64_t pair) const {
    return pairing == RopePairing::half ? pair : 2 * pair;
  }
  std::int64_t second_channel(std::int64_t pair, std::int64_t dim) const {
    return pairing == RopePairing::half ? pair + rotated(dim) / 2 : 2 * pair + 1;
  }
};

/// Throws invalid_argument unless `rope` fits vectors of `dim` channels.
inline void require_valid(const Rope& rope, std::int64_t dim) {
  require(rope.theta > 0.0 && std::isfinite(rope.theta), "rope.theta", rope.theta,
          "finite and > 0");
  require(rope.rotary_dim >= -1 && rope.rotary_dim <= dim, "rope.rotary_dim", rope.rotary_dim,
          "-1 or in [0, dim], dim =", dim);
  require(rope.rotated(dim) % 2 == 0, "rope.rotary_dim", rope.rotated(dim), "even");
  const auto table = static_cast<std::int64_t>(rope.frequencies.size());
  require(table == 0 || table == rope.rotated(dim) / 2, "rope.frequencies.size", table,
          "rotary_dim / 2 =", rope.rotated(dim) / 2);
  require(std::isfinite(rope.attention_factor) && rope.attention_factor > 0.0,
          "rope.attention_factor", rope.attention_factor, "finite and > 0");
}

}  // namespace kvevict
