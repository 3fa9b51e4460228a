// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "program.hpp"
#include "types.hpp"

namespace kvevict_ptx {

/// `ld.global.v4.f32` taken apart.
struct Opcode {
  explicit Opcode(std::string_view text);

  /// Whether one of the suffixes is `suffix`.
  bool has(std::string_view suffix) const;
  /// The k-th type among the suffixes, or none.
  Type type(std::size_t k = 0) const { return k < types.size() ? types[k] : Type::none; }

  std::string_view name;
  std::vector<std::string_view> suffixes;
  std::vector<Type> types;
};

/// The handler of an instruction and the bytes of a lane of each of its operands, the destination
/// first; 1 stands for a predicate. A null handler: nobody knows this instruction.
struct Selection {
  Handler run = nullptr;
  std::array<std::uint8_t, max_operands> widths{};
};

/// One function for each group of instructions whose operands are plain registers and numbers. They
/// add to `with`, which holds what is common to all instructions already.
Selection select_integer(const Opcode& opcode, Modifiers& with);
Selection select_carry(const Opcode& opcode, Modifiers& with);
Selection select_bits(const Opcode& opcode, Modifiers& with);
Selection select_float(const Opcode& opcode, Modifiers& with);
Selection select_approximate(const Opcode& opcode, Modifiers& with);
Selection select_compare(const Opcode& opcode, Modifiers& with);
Selection select_predicate(const Opcode& opcode, Modifiers& with);
Selection select_convert_pair(const Opcode& opcode, Modifiers& with);
Selection select_collective(const Opcode& opcode, Modifiers& with);

/// What is common to all instructions: rounding, saturation and so on.
Modifiers common_modifiers(const Opcode& opcode);

// The others have operands of their own kind; see decoder.
Handler select_convert(const Opcode& opcode, int to_bytes, int from_bytes, Modifiers& with);
Handler select_load(Space space, int bytes, int register_bytes);
Handler select_store(Space space, int bytes, int register_bytes);
Handler select_atomic(const Opcode& opcode, Space space);
Handler select_copy(int bytes);
Handler select_clock(int bytes);
Handler select_pack(bool packs);
Selection select_async(const Opcode& opcode, Modifiers& with);
Selection select_barrier_reduction(const Opcode& opcode, Modifiers& with);
Selection select_address(const Opcode& opcode);     ///< cvta, isspacep
Selection select_effectless(const Opcode& opcode);  ///< operands are not looked at

/// Calls f with a value of the C++ type of an integer type; a bit type counts as unsigned. Returns
/// f's result, or an empty Selection for any other type.
template <class F>
Selection with_integer(Type type, F f) {
  switch (type) {
    case Type::b16:
    case Type::u16:
      return f(std::uint16_t{});
    case Type::s16:
      return f(std::int16_t{});
    case Type::b32:
    case Type::u32:
      return f(std::uint32_t{});
    case Type::s32:
      return f(std::int32_t{});
    case Type::b64:
    case Type::u64:
      return f(std::uint64_t{});
    case Type::s64:
      return f(std::int64_t{});
    default:
      return {};
  }
}

}  // namespace kvevict_ptx
