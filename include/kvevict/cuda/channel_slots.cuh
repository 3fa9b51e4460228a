// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/config.hpp"
#include "kvevict/math/rope.hpp"

namespace kvevict::cuda {

/// The channels of a vector as RoPE turns them: `pairs` slots of two channels each, then one slot
/// for each channel that stays. One thread works on one slot.
struct ChannelSlots {
  std::int64_t dim = 0;
  std::int64_t pairs = 0;
  bool adjacent = false;

  ChannelSlots(const Rope& rope, std::int64_t channels)
      : dim(channels),
        pairs(rope.rotated(channels) / 2),
        adjacent(rope.pairing == RopePairing::adjacent) {}

  KVEVICT_HOST_DEVICE std::int64_t count() const { return dim - pairs; }
  KVEVICT_HOST_DEVICE bool paired(std::int64_t slot) const { return slot < pairs; }
  KVEVICT_HOST_DEVICE std::int64_t first(std::int64_t slot) const {
    if (!paired(slot)) return pairs + slot;
    return adjacent ? 2 * slot : slot;
  }
  /// Of a slot that is paired.
  KVEVICT_HOST_DEVICE std::int64_t second(std::int64_t slot) const {
    return adjacent ? 2 * slot + 1 : pairs + slot;
  }
};

}  // namespace kvevict::cuda
