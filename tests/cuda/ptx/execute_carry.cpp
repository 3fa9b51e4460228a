// SPDX-License-Identifier: Apache-2.0
// Arithmetic on numbers of several words: add.cc, addc, madc and the like. The carry is a predicate
// that the decoder appends as the last operand.
#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

__extension__ using Wide = unsigned __int128;

enum Kind : std::uint8_t { uses_carry = 1, sets_carry = 2, subtracts = 4, high = 8 };

template <class T, bool multiplies>
void with_carry(Warp& warp, const Instruction& instruction, LaneMask active) {
  constexpr int width = 8 * sizeof(T);
  constexpr std::size_t addend = multiplies ? 3 : 2;
  const std::uint8_t kind = instruction.with.kind;
  const T* a = warp.lanes<T>(instruction.slots[1]);
  const T* b = warp.lanes<T>(instruction.slots[2]);
  const T* c = warp.lanes<T>(instruction.slots[addend]);
  const Slot flag = instruction.slots[addend + 1];
  const LaneMask carry = (kind & uses_carry) != 0 ? warp.predicate(flag) : 0;
  LaneValues<T> values;
  LaneMask carried = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    T first = a[i];
    if constexpr (multiplies) {
      const Wide product = static_cast<Wide>(a[i]) * b[i];
      first = static_cast<T>((kind & high) != 0 ? product >> width : product);
    }
    const Wide second = static_cast<Wide>(c[i]) + (carry >> i & 1);
    const Wide result = (kind & subtracts) != 0 ? static_cast<Wide>(first) - second
                                                : static_cast<Wide>(first) + second;
    values[i] = static_cast<T>(result);
    // A difference below zero sets all higher bits, a sum that is too large the next one.
    carried |= static_cast<LaneMask>(result >> width & 1) << i;
  }
  store(warp, instruction.slots[0], values, active);
  if ((kind & sets_carry) != 0) warp.set_predicate(flag, carried, active);
}

}  // namespace

Selection select_carry(const Opcode& opcode, Modifiers& with) {
  const std::string_view name = opcode.name;
  const bool uses = name == "addc" || name == "subc" || name == "madc";
  const bool sets = opcode.has("cc");
  if (!uses && !sets) return {};
  const bool multiplies = name == "mad" || name == "madc";
  const bool known =
      multiplies || name == "add" || name == "addc" || name == "sub" || name == "subc";
  const auto width = static_cast<std::uint8_t>(size_of(opcode.type()));
  if (!known || (width != 4 && width != 8)) return {};
  // The high word of a signed product is needed nowhere.
  if (multiplies && opcode.has("hi") && is_signed(opcode.type())) return {};
  with.kind = static_cast<std::uint8_t>((uses ? uses_carry : 0) | (sets ? sets_carry : 0) |
                                        (name.starts_with("sub") ? subtracts : 0) |
                                        (opcode.has("hi") ? high : 0));
  if (multiplies) {
    return {width == 4 ? &with_carry<std::uint32_t, true> : &with_carry<std::uint64_t, true>,
            {width, width, width, width, 1}};
  }
  return {width == 4 ? &with_carry<std::uint32_t, false> : &with_carry<std::uint64_t, false>,
          {width, width, width, 1}};
}

}  // namespace kvevict_ptx
