// SPDX-License-Identifier: Apache-2.0
// Instructions on bits: logic, shifts, fields, counts, permutations.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

template <class T>
inline constexpr int width_of = 8 * static_cast<int>(sizeof(T));

template <class T>
struct And {
  T operator()(T a, T b) const { return static_cast<T>(a & b); }
};
template <class T>
struct Or {
  T operator()(T a, T b) const { return static_cast<T>(a | b); }
};
template <class T>
struct Xor {
  T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};
template <class T>
struct Not {
  T operator()(T a) const { return static_cast<T>(~a); }
};
template <class T>
struct LogicalNot {
  T operator()(T a) const { return a == 0; }
};
// Shifts by the width or more clear every bit, or copy the sign to all.
template <class T>
struct ShiftLeft {
  T operator()(T a, std::uint32_t by) const {
    return by >= width_of<T> ? T{} : static_cast<T>(static_cast<std::uint64_t>(a) << by);
  }
};
template <class T>
struct ShiftRight {
  T operator()(T a, std::uint32_t by) const {
    if (by >= width_of<T>) return static_cast<T>(a < 0 ? -1 : 0);
    return static_cast<T>(a >> by);
  }
};
template <class T>
struct CountOnes {
  std::uint32_t operator()(T a) const { return static_cast<std::uint32_t>(std::popcount(a)); }
};
template <class T>
struct LeadingZeros {
  std::uint32_t operator()(T a) const { return static_cast<std::uint32_t>(std::countl_zero(a)); }
};
template <class T>
struct Reverse {
  T operator()(T a) const {
    T result = 0;
    for (int i = 0; i < width_of<T>; ++i, a = static_cast<T>(a >> 1)) {
      result = static_cast<T>(result << 1 | (a & 1));
    }
    return result;
  }
};
/// The position of the highest bit that differs from the sign (of an unsigned number: that is set).
template <class T>
struct HighestBit {
  std::uint32_t operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    const U searched = a < 0 ? static_cast<U>(~static_cast<U>(a)) : static_cast<U>(a);
    return static_cast<std::uint32_t>(width_of<T> - 1 - std::countl_zero(searched));
  }
};
/// The distance of that bit from the left end.
template <class T>
struct HighestBitShift {
  std::uint32_t operator()(T a) const {
    const std::uint32_t at = HighestBit<T>{}(a);
    return at == 0xffffffffu ? at : static_cast<std::uint32_t>(width_of<T> - 1) - at;
  }
};
template <class T>
struct ExtractField {
  T operator()(T a, std::uint32_t at, std::uint32_t length) const {
    at &= 0xff;
    length &= 0xff;
    constexpr auto width = static_cast<std::uint32_t>(width_of<T>);
    if (length == 0) return 0;
    // Bits beyond the left end are copies of the sign.
    const T shifted = ShiftRight<T>{}(a, at);
    if (length >= width) return shifted;
    if constexpr (std::is_signed_v<T>) {
      return ShiftRight<T>{}(ShiftLeft<T>{}(shifted, width - length), width - length);
    }
    return static_cast<T>(shifted & ((T{1} << length) - 1));
  }
};
template <class T>
T field_mask(std::uint32_t at, std::uint32_t length) {
  const T ones = static_cast<T>(ShiftLeft<T>{}(T{1}, length) - 1);
  return ShiftLeft<T>{}(ones, at);
}
/// bfi: slots are destination, field, background, position, length.
template <class T>
void insert_field(Warp& warp, const Instruction& instruction, LaneMask active) {
  const T* field = warp.lanes<T>(instruction.slots[1]);
  const T* background = warp.lanes<T>(instruction.slots[2]);
  const auto* at = warp.lanes<std::uint32_t>(instruction.slots[3]);
  const auto* length = warp.lanes<std::uint32_t>(instruction.slots[4]);
  LaneValues<T> values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T mask = field_mask<T>(at[i] & 0xff, length[i] & 0xff);
    const T moved = ShiftLeft<T>{}(field[i], at[i] & 0xff);
    values[i] = static_cast<T>((background[i] & ~mask) | (moved & mask));
  }
  store(warp, instruction.slots[0], values, active);
}
template <bool wraps>
struct MakeMask {
  std::uint32_t operator()(std::uint32_t at, std::uint32_t length) const {
    return wraps ? field_mask<std::uint32_t>(at & 31, length & 31)
                 : field_mask<std::uint32_t>(at, length);
  }
};
template <bool left, bool wraps>
struct FunnelShift {
  std::uint32_t operator()(std::uint32_t low, std::uint32_t high, std::uint32_t by) const {
    by = wraps ? by & 31 : std::min(by, 32u);
    const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
    return static_cast<std::uint32_t>(left ? both << by >> 32 : both >> by);
  }
};
/// prmt without a mode: each nibble of the selector names a byte, its highest bit asks for the
/// sign.
struct Permute {
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t selector) const {
    const std::uint64_t bytes = static_cast<std::uint64_t>(b) << 32 | a;
    std::uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t choice = selector >> (4 * i) & 15;
      std::uint32_t byte = static_cast<std::uint32_t>(bytes >> (8 * (choice & 7))) & 0xff;
      if (choice >= 8) byte = byte >= 0x80 ? 0xff : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
};
/// lop3: bit 4a + 2b + c of the table.
void logic3(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto* a = warp.lanes<std::uint32_t>(instruction.slots[1]);
  const auto* b = warp.lanes<std::uint32_t>(instruction.slots[2]);
  const auto* c = warp.lanes<std::uint32_t>(instruction.slots[3]);
  const std::uint32_t table = warp.lanes<std::uint32_t>(instruction.slots[4])[0];
  LaneValues<std::uint32_t> values{};
  for (std::uint32_t row = 0; row < 8; ++row) {
    if ((table >> row & 1) == 0) continue;
    const std::uint32_t flip_a = (row & 4) != 0 ? 0 : all_lanes;
    const std::uint32_t flip_b = (row & 2) != 0 ? 0 : all_lanes;
    const std::uint32_t flip_c = (row & 1) != 0 ? 0 : all_lanes;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] |= (a[i] ^ flip_a) & (b[i] ^ flip_b) & (c[i] ^ flip_c);
    }
  }
  store(warp, instruction.slots[0], values, active);
}

template <class T>
Selection logic(std::string_view name) {
  constexpr std::uint8_t size = sizeof(T);
  if (name == "and") return {&binary<T, T, T, And<T>>, {size, size, size}};
  if (name == "or") return {&binary<T, T, T, Or<T>>, {size, size, size}};
  if (name == "xor") return {&binary<T, T, T, Xor<T>>, {size, size, size}};
  if (name == "not") return {&unary<T, T, Not<T>>, {size, size}};
  if (name == "cnot") return {&unary<T, T, LogicalNot<T>>, {size, size}};
  return {};
}

template <class T>
Selection shift(std::string_view name) {
  constexpr std::uint8_t size = sizeof(T);
  if (name == "shl") {
    return {&binary<T, T, std::uint32_t, ShiftLeft<T>>, {size, size, 4}};
  }
  if (name == "shr") {
    return {&binary<T, T, std::uint32_t, ShiftRight<T>>, {size, size, 4}};
  }
  return {};
}

template <class T>
Selection counting(const Opcode& opcode) {
  using U = std::make_unsigned_t<T>;
  constexpr std::uint8_t size = sizeof(T);
  if (opcode.name == "popc") return {&unary<std::uint32_t, U, CountOnes<U>>, {4, size}};
  if (opcode.name == "clz") return {&unary<std::uint32_t, U, LeadingZeros<U>>, {4, size}};
  if (opcode.name == "brev") return {&unary<U, U, Reverse<U>>, {size, size}};
  if (opcode.name == "bfind") {
    if (opcode.has("shiftamt")) {
      return {&unary<std::uint32_t, T, HighestBitShift<T>>, {4, size}};
    }
    return {&unary<std::uint32_t, T, HighestBit<T>>, {4, size}};
  }
  return {};
}

template <class T>
Selection field(std::string_view name) {
  constexpr std::uint8_t size = sizeof(T);
  if (name == "bfe") {
    return {&ternary<T, T, std::uint32_t, std::uint32_t, ExtractField<T>>, {size, size, 4, 4}};
  }
  if (name == "bfi") {
    return {&insert_field<std::make_unsigned_t<T>>, {size, size, size, 4, 4}};
  }
  return {};
}

Selection special(const Opcode& opcode, const Modifiers& with) {
  const std::string_view name = opcode.name;
  using U = std::uint32_t;
  if (name == "lop3" && opcode.suffixes.size() == 1) return {&logic3, {4, 4, 4, 4, 4}};
  if (name == "prmt" && opcode.suffixes.size() == 1) {
    return {&ternary<U, U, U, U, Permute>, {4, 4, 4, 4}};
  }
  if (name == "bmsk") {
    return {with.wrap ? &binary<U, U, U, MakeMask<true>> : &binary<U, U, U, MakeMask<false>>,
            {4, 4, 4}};
  }
  if (name == "shf") {
    const bool left = opcode.has("l");
    const Handler wrapped = left ? &ternary<U, U, U, U, FunnelShift<true, true>>
                                 : &ternary<U, U, U, U, FunnelShift<false, true>>;
    const Handler clamped = left ? &ternary<U, U, U, U, FunnelShift<true, false>>
                                 : &ternary<U, U, U, U, FunnelShift<false, false>>;
    return {with.wrap ? wrapped : clamped, {4, 4, 4, 4}};
  }
  return {};
}

}  // namespace

Selection select_bits(const Opcode& opcode, Modifiers& with) {
  Selection selection = special(opcode, with);
  if (selection.run != nullptr) return selection;
  return with_integer(opcode.type(), [&](auto value) -> Selection {
    using T = decltype(value);
    if (Selection found = logic<std::make_unsigned_t<T>>(opcode.name); found.run != nullptr) {
      return found;
    }
    if (Selection found = shift<T>(opcode.name); found.run != nullptr) return found;
    if constexpr (sizeof(T) >= 4) {
      if (Selection found = counting<T>(opcode); found.run != nullptr) return found;
      return field<T>(opcode.name);
    }
    return {};
  });
}

}  // namespace kvevict_ptx
