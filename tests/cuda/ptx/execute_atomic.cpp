// SPDX-License-Identifier: Apache-2.0
// atom and red. One thread at a time touches memory here, so reading and writing is enough.
#include <cstring>

#include "address.hpp"
#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

// Operations on what is in memory; `c` is used by compare-and-swap only.
template <class T>
struct Add {
  T operator()(T old, T b, T) const {
    if constexpr (std::is_floating_point_v<T>) return old + b;
    return static_cast<T>(static_cast<std::uint64_t>(old) + static_cast<std::uint64_t>(b));
  }
};
template <class T>
struct Minimum {
  T operator()(T old, T b, T) const { return b < old ? b : old; }
};
template <class T>
struct Maximum {
  T operator()(T old, T b, T) const { return old < b ? b : old; }
};
template <class T>
struct And {
  T operator()(T old, T b, T) const { return old & b; }
};
template <class T>
struct Or {
  T operator()(T old, T b, T) const { return old | b; }
};
template <class T>
struct Xor {
  T operator()(T old, T b, T) const { return old ^ b; }
};
template <class T>
struct Exchange {
  T operator()(T, T b, T) const { return b; }
};
template <class T>
struct CompareAndSwap {
  T operator()(T old, T b, T c) const { return old == b ? c : old; }
};
/// Counts up to b, then starts again at 0.
template <class T>
struct Increment {
  T operator()(T old, T b, T) const { return old >= b ? T{0} : static_cast<T>(old + 1); }
};
/// Counts down from b.
template <class T>
struct Decrement {
  T operator()(T old, T b, T) const { return old == 0 || old > b ? b : static_cast<T>(old - 1); }
};

template <Space space, class T, class Operation>
void update(Warp& warp, const Instruction& instruction, LaneMask active) {
  const T* b = warp.lanes<T>(instruction.slots[2]);
  const T* c = instruction.slots[3] == no_slot ? b : warp.lanes<T>(instruction.slots[3]);
  for_each_lane(active, [&](int lane) {
    std::byte* at = resolve<space>(warp, instruction, lane, address_of(warp, instruction, lane, 1),
                                   sizeof(T), Access::strong_write);
    T old;
    std::memcpy(&old, at, sizeof old);
    const T value = Operation{}(old, b[lane], c[lane]);
    std::memcpy(at, &value, sizeof value);
    if (instruction.slots[0] != no_slot) warp.lanes<T>(instruction.slots[0])[lane] = old;
  });
}

template <class T, class Operation>
Handler in_space(Space space) {
  if (space == Space::global) return &update<Space::global, T, Operation>;
  if (space == Space::shared) return &update<Space::shared, T, Operation>;
  if (space == Space::generic) return &update<Space::generic, T, Operation>;
  return nullptr;
}

template <class T>
Handler integer_operation(const Opcode& opcode, Space space) {
  if (opcode.has("add")) return in_space<T, Add<T>>(space);
  if (opcode.has("min")) return in_space<T, Minimum<T>>(space);
  if (opcode.has("max")) return in_space<T, Maximum<T>>(space);
  if constexpr (std::is_unsigned_v<T>) {
    if (opcode.has("and")) return in_space<T, And<T>>(space);
    if (opcode.has("or")) return in_space<T, Or<T>>(space);
    if (opcode.has("xor")) return in_space<T, Xor<T>>(space);
    if (opcode.has("exch")) return in_space<T, Exchange<T>>(space);
    if (opcode.has("cas")) return in_space<T, CompareAndSwap<T>>(space);
    if (opcode.has("inc")) return in_space<T, Increment<T>>(space);
    if (opcode.has("dec")) return in_space<T, Decrement<T>>(space);
  }
  return nullptr;
}

}  // namespace

Handler select_atomic(const Opcode& opcode, Space space) {
  switch (opcode.type()) {
    case Type::b32:
    case Type::u32:
      return integer_operation<std::uint32_t>(opcode, space);
    case Type::s32:
      return integer_operation<std::int32_t>(opcode, space);
    case Type::b64:
    case Type::u64:
      return integer_operation<std::uint64_t>(opcode, space);
    case Type::s64:
      return integer_operation<std::int64_t>(opcode, space);
    case Type::b16:
      return opcode.has("cas") ? in_space<std::uint16_t, CompareAndSwap<std::uint16_t>>(space)
                               : nullptr;
    case Type::f32:
      return opcode.has("add") ? in_space<float, Add<float>>(space) : nullptr;
    case Type::f64:
      return opcode.has("add") ? in_space<double, Add<double>>(space) : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace kvevict_ptx
