// SPDX-License-Identifier: Apache-2.0
// Operations of several lanes of a warp. A handler is called once all lanes that the mask names are
// there, with exactly those lanes.
#include <algorithm>

#include "block.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

enum Shuffle : std::uint8_t { up, down, butterfly, indexed };

/// The lane that `lane` reads, and whether it is in its segment: slots[2] is the distance or lane,
/// slots[3] packs the bound and the mask of the bits that are fixed in a segment.
struct SourceLane {
  int lane;
  bool in_range;
};
SourceLane source_lane(Shuffle mode, int lane, std::uint32_t operand, std::uint32_t packed) {
  const int by = static_cast<int>(operand & 31);
  const int segment = static_cast<int>(packed >> 8 & 31);
  const int bound = static_cast<int>(packed & 31);
  const int highest = (lane & segment) | (bound & ~segment);
  switch (mode) {
    case up:
      return {lane - by, lane - by >= highest};
    case down:
      return {lane + by, lane + by <= highest};
    case butterfly:
      return {lane ^ by, (lane ^ by) <= highest};
    case indexed:
      break;
  }
  const int from = (lane & segment) | (by & ~segment);
  return {from, from <= highest};
}

void shuffle(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto* a = warp.lanes<std::uint32_t>(instruction.slots[1]);
  const auto* b = warp.lanes<std::uint32_t>(instruction.slots[2]);
  const auto* c = warp.lanes<std::uint32_t>(instruction.slots[3]);
  LaneValues<std::uint32_t> values{};
  LaneMask in_range = 0;
  for_each_lane(active, [&](int lane) {
    const SourceLane source =
        source_lane(static_cast<Shuffle>(instruction.with.kind), lane, b[lane], c[lane]);
    const int from = source.in_range ? source.lane : lane;
    if ((active >> from & 1) == 0) {
      fail(warp, instruction, lane,
           "the shuffle reads lane " + std::to_string(from) + ", which does not take part");
    }
    values[static_cast<std::size_t>(lane)] = a[from];
    in_range |= static_cast<LaneMask>(source.in_range) << lane;
  });
  if (instruction.slots[0] != no_slot) store(warp, instruction.slots[0], values, active);
  if (instruction.pair != no_slot) warp.set_predicate(instruction.pair, in_range, active);
}

enum Vote : std::uint8_t { all, any, uniform, ballot };

void vote(Warp& warp, const Instruction& instruction, LaneMask active) {
  const LaneMask yes = warp.predicate(instruction, 1) & active;
  const auto kind = static_cast<Vote>(instruction.with.kind);
  if (kind == ballot) {
    LaneValues<std::uint32_t> values;
    values.fill(yes);
    store(warp, instruction.slots[0], values, active);
    return;
  }
  const bool result = kind == any   ? yes != 0
                      : kind == all ? yes == active
                                    : yes == 0 || yes == active;
  warp.set_predicate(instruction.slots[0], result ? all_lanes : 0, active);
}

template <class T>
void match(Warp& warp, const Instruction& instruction, LaneMask active) {
  const T* a = warp.lanes<T>(instruction.slots[1]);
  const bool wants_all = instruction.with.kind != 0;
  LaneValues<std::uint32_t> values{};
  LaneMask agrees = 0;
  for_each_lane(active, [&](int lane) {
    LaneMask equal = 0;
    for_each_lane(active,
                  [&](int other) { equal |= static_cast<LaneMask>(a[other] == a[lane]) << other; });
    agrees |= static_cast<LaneMask>(equal == active) << lane;
    values[static_cast<std::size_t>(lane)] = wants_all && equal != active ? 0 : equal;
  });
  store(warp, instruction.slots[0], values, active);
  if (instruction.pair != no_slot) warp.set_predicate(instruction.pair, agrees, active);
}

struct Sum {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return a + b; }
};
struct And {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return a & b; }
};
struct Or {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return a | b; }
};
struct Xor {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const { return a ^ b; }
};
template <class T>
struct Minimum {
  T operator()(T a, T b) const { return std::min(a, b); }
};
template <class T>
struct Maximum {
  T operator()(T a, T b) const { return std::max(a, b); }
};

template <class T, class Operation>
void reduce(Warp& warp, const Instruction& instruction, LaneMask active) {
  const T* a = warp.lanes<T>(instruction.slots[1]);
  const int first = std::countr_zero(active);
  T result = a[first];
  for_each_lane(active & (active - 1), [&](int lane) { result = Operation{}(result, a[lane]); });
  LaneValues<T> values;
  values.fill(result);
  store(warp, instruction.slots[0], values, active);
}

Handler select_reduction(const Opcode& opcode) {
  using U = std::uint32_t;
  using S = std::int32_t;
  const bool is_s32 = opcode.type() == Type::s32;
  if (size_of(opcode.type()) != 4 || is_float(opcode.type())) return nullptr;
  if (opcode.has("add")) return &reduce<U, Sum>;
  if (opcode.has("and")) return &reduce<U, And>;
  if (opcode.has("or")) return &reduce<U, Or>;
  if (opcode.has("xor")) return &reduce<U, Xor>;
  if (opcode.has("min")) return is_s32 ? &reduce<S, Minimum<S>> : &reduce<U, Minimum<U>>;
  if (opcode.has("max")) return is_s32 ? &reduce<S, Maximum<S>> : &reduce<U, Maximum<U>>;
  return nullptr;
}

void synchronize(Warp& warp, const Instruction&, LaneMask active) {
  warp.block().clock().synchronize(warp.index(), active, warp.live());
}

/// elect: the lowest lane.
void elect(Warp& warp, const Instruction& instruction, LaneMask active) {
  const LaneMask leader = active & (0 - active);
  LaneValues<std::uint32_t> values;
  values.fill(static_cast<std::uint32_t>(std::countr_zero(active)));
  if (instruction.slots[0] != no_slot) store(warp, instruction.slots[0], values, active);
  if (instruction.pair != no_slot) warp.set_predicate(instruction.pair, leader, active);
}

void read_active_mask(Warp& warp, const Instruction& instruction, LaneMask active) {
  LaneValues<std::uint32_t> values;
  values.fill(active);
  store(warp, instruction.slots[0], values, active);
}

enum BarrierReduction : std::uint8_t { every, some, population };

void reduce_at_barrier(Warp& warp, const Instruction& instruction, LaneMask active) {
  const int count = warp.block().barrier_count();
  if (instruction.with.kind == population) {
    LaneValues<std::uint32_t> values;
    values.fill(static_cast<std::uint32_t>(count));
    store(warp, instruction.slots[0], values, active);
    return;
  }
  const bool result =
      instruction.with.kind == some ? count > 0 : count == warp.block().barrier_threads();
  warp.set_predicate(instruction.slots[0], result ? all_lanes : 0, active);
}

template <std::size_t n>
bool find_kind(const Opcode& opcode, const std::array<std::string_view, n>& names,
               Modifiers& with) {
  for (std::size_t k = 0; k < n; ++k) {
    if (!opcode.has(names[k])) continue;
    with.kind = static_cast<std::uint8_t>(k);
    return true;
  }
  return false;
}

}  // namespace

Selection select_barrier_reduction(const Opcode& opcode, Modifiers& with) {
  constexpr std::array<std::string_view, 3> reductions{"and", "or", "popc"};
  if (!find_kind(opcode, reductions, with)) return {};
  return {&reduce_at_barrier, {static_cast<std::uint8_t>(with.kind == population ? 4 : 1)}};
}

Selection select_collective(const Opcode& opcode, Modifiers& with) {
  constexpr std::array<std::string_view, 4> shuffles{"up", "down", "bfly", "idx"};
  constexpr std::array<std::string_view, 4> votes{"all", "any", "uni", "ballot"};
  const std::string_view name = opcode.name;
  if (name == "activemask") return {&read_active_mask, {4}};
  if (name == "bar" || name == "barrier") {
    if (opcode.has("warp")) return {&synchronize, {4}};
    return {};
  }
  if (!opcode.has("sync")) return {};
  if (name == "shfl" && find_kind(opcode, shuffles, with)) return {&shuffle, {4, 4, 4, 4, 4}};
  if (name == "vote" && find_kind(opcode, votes, with)) {
    const std::uint8_t result = with.kind == ballot ? 4 : 1;
    return {&vote, {result, 1, 4}};
  }
  if (name == "match") {
    with.kind = opcode.has("all");
    const auto size = static_cast<std::uint8_t>(size_of(opcode.type()));
    return {size == 8 ? &match<std::uint64_t> : &match<std::uint32_t>, {4, size, 4}};
  }
  if (name == "redux") return {select_reduction(opcode), {4, 4, 4}};
  if (name == "elect") return {&elect, {4, 4}};
  return {};
}

}  // namespace kvevict_ptx
