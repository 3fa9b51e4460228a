// SPDX-License-Identifier: Apache-2.0
#pragma once

// Warp collectives. The names are CUDA's, and so are the types they accept: arithmetic types of 32
// or 64 bits.
#include <concepts>

#include "threads.hpp"

namespace kvevict_emulation {

template <class T>
concept LaneValue = std::is_arithmetic_v<T> &&(sizeof(T) == 4 || sizeof(T) == 8);

inline int lane_index() {
  const unsigned row = threadIdx.y + blockDim.y * threadIdx.z;
  return static_cast<int>((threadIdx.x + blockDim.x * row) % 32);
}

inline void check_width(int width, SourceSite site) {
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) {
    fail("a shuffle's width is 1, 2, 4, 8, 16 or 32, not " + std::to_string(width), site);
  }
}

template <LaneValue T>
T shuffle(unsigned mask, T value, int source, SourceSite site) {
  return bit_copy<T>(
      warp_collective(WarpOp::shuffle, mask, source, bit_copy<LaneBits>(value), site));
}

inline LaneBits reduce(WarpOp op, unsigned mask, LaneBits value, SourceSite site) {
  return warp_collective(op, mask, 0, value, site);
}

}  // namespace kvevict_emulation

inline void __syncwarp(unsigned mask = 0xffffffffu, kvevict_emulation::SourceSite site =
                                                        kvevict_emulation::SourceSite::current()) {
  kvevict_emulation::warp_collective(kvevict_emulation::WarpOp::sync, mask, 0, 0, site);
}

template <kvevict_emulation::LaneValue T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  kvevict_emulation::check_width(width, site);
  const int segment = kvevict_emulation::lane_index() & ~(width - 1);
  return kvevict_emulation::shuffle(mask, value, segment | (source & (width - 1)), site);
}

template <kvevict_emulation::LaneValue T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  kvevict_emulation::check_width(width, site);
  const int lane = kvevict_emulation::lane_index();
  const bool inside = static_cast<unsigned>(lane & (width - 1)) >= delta;
  return kvevict_emulation::shuffle(mask, value, inside ? lane - static_cast<int>(delta) : lane,
                                    site);
}

template <kvevict_emulation::LaneValue T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  kvevict_emulation::check_width(width, site);
  const int lane = kvevict_emulation::lane_index();
  const bool inside = static_cast<unsigned>(lane & (width - 1)) + delta < unsigned(width);
  return kvevict_emulation::shuffle(mask, value, inside ? lane + static_cast<int>(delta) : lane,
                                    site);
}

template <kvevict_emulation::LaneValue T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  kvevict_emulation::check_width(width, site);
  const int lane = kvevict_emulation::lane_index();
  const int source = lane ^ lane_mask;
  const bool inside = source < (lane & ~(width - 1)) + width;
  return kvevict_emulation::shuffle(mask, value, inside ? source : lane, site);
}

inline unsigned __ballot_sync(
    unsigned mask, int predicate,
    kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  return static_cast<unsigned>(
      kvevict_emulation::reduce(kvevict_emulation::WarpOp::ballot, mask, predicate != 0, site));
}

inline int __any_sync(
    unsigned mask, int predicate,
    kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  return __ballot_sync(mask, predicate, site) != 0;
}

inline int __all_sync(
    unsigned mask, int predicate,
    kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  return __ballot_sync(mask, predicate == 0, site) == 0;
}

template <kvevict_emulation::LaneValue T>
unsigned __match_any_sync(
    unsigned mask, T value,
    kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) {
  return static_cast<unsigned>(kvevict_emulation::reduce(
      kvevict_emulation::WarpOp::match, mask,
      kvevict_emulation::bit_copy<kvevict_emulation::LaneBits>(value), site));
}

// Reductions of 32-bit integers.
#define KVEVICT_EMULATION_REDUCE(name, op, T)                                                    \
  inline T name(unsigned mask, T value,                                                          \
                kvevict_emulation::SourceSite site = kvevict_emulation::SourceSite::current()) { \
    return static_cast<T>(kvevict_emulation::reduce(kvevict_emulation::WarpOp::op, mask,         \
                                                    static_cast<std::uint32_t>(value), site));   \
  }
KVEVICT_EMULATION_REDUCE(__reduce_add_sync, add, int)
KVEVICT_EMULATION_REDUCE(__reduce_add_sync, add, unsigned)
KVEVICT_EMULATION_REDUCE(__reduce_min_sync, min_s, int)
KVEVICT_EMULATION_REDUCE(__reduce_min_sync, min_u, unsigned)
KVEVICT_EMULATION_REDUCE(__reduce_max_sync, max_s, int)
KVEVICT_EMULATION_REDUCE(__reduce_max_sync, max_u, unsigned)
KVEVICT_EMULATION_REDUCE(__reduce_and_sync, and_, unsigned)
KVEVICT_EMULATION_REDUCE(__reduce_or_sync, or_, unsigned)
KVEVICT_EMULATION_REDUCE(__reduce_xor_sync, xor_, unsigned)
#undef KVEVICT_EMULATION_REDUCE
