// SPDX-License-Identifier: Apache-2.0
#pragma once

// Handlers that compute each lane's result from its operands alone.
#include <array>
#include <bit>
#include <cstring>

#include "warp.hpp"

namespace kvevict_ptx {

inline constexpr LaneMask all_lanes = 0xffffffffu;

template <class T>
using LaneValues = std::array<T, warp_lanes>;

/// Calls f(lane) for each lane in `lanes`.
template <class F>
void for_each_lane(LaneMask lanes, F f) {
  for (; lanes != 0; lanes &= lanes - 1) f(std::countr_zero(lanes));
}

/// Writes the values of the active lanes.
template <class T>
void store(const Warp& warp, Slot slot, const LaneValues<T>& values, LaneMask active) {
  T* to = warp.lanes<T>(slot);
  if (active == all_lanes) {
    std::memcpy(to, values.data(), sizeof values);
  } else {
    for_each_lane(active, [&](int lane) { to[lane] = values[static_cast<std::size_t>(lane)]; });
  }
}

// The loops run over all lanes, active or not: that is what the compiler can vectorise. Operations
// must therefore be defined for any bits.

template <class Result, class A, class Operation>
void unary(Warp& warp, const Instruction& instruction, LaneMask active) {
  const A* a = warp.lanes<A>(instruction.slots[1]);
  LaneValues<Result> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = Operation{}(a[i]);
  store(warp, instruction.slots[0], values, active);
}

template <class Result, class A, class B, class Operation>
void binary(Warp& warp, const Instruction& instruction, LaneMask active) {
  const A* a = warp.lanes<A>(instruction.slots[1]);
  const B* b = warp.lanes<B>(instruction.slots[2]);
  LaneValues<Result> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = Operation{}(a[i], b[i]);
  store(warp, instruction.slots[0], values, active);
}

template <class Result, class A, class B, class C, class Operation>
void ternary(Warp& warp, const Instruction& instruction, LaneMask active) {
  const A* a = warp.lanes<A>(instruction.slots[1]);
  const B* b = warp.lanes<B>(instruction.slots[2]);
  const C* c = warp.lanes<C>(instruction.slots[3]);
  LaneValues<Result> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = Operation{}(a[i], b[i], c[i]);
  store(warp, instruction.slots[0], values, active);
}

/// Packs 32 truth values into bits.
inline LaneMask pack_bits(const LaneValues<unsigned char>& truths) {
  LaneMask mask = 0;
  for (std::size_t i = 0; i < truths.size(); i += 8) {
    std::uint64_t eight = 0;
    for (std::size_t j = 0; j < 8; ++j) {
      eight |= static_cast<std::uint64_t>(truths[i + j]) << (8 * j);
    }
    // Multiplying gathers the lowest bits of the eight bytes in the highest byte.
    mask |= static_cast<LaneMask>((eight * 0x0102040810204080u) >> 56) << i;
  }
  return mask;
}

}  // namespace kvevict_ptx
