// SPDX-License-Identifier: Apache-2.0
#pragma once

// A kernel in the form that is executed. A warp's 32 lanes run an instruction together: registers
// are arrays of 32 values (predicates: one bit per lane), and an operand is the offset of such an
// array.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "syntax.hpp"

namespace kvevict_ptx {

class Warp;
struct Instruction;

inline constexpr int warp_lanes = 32;

/// One bit per lane.
using LaneMask = std::uint32_t;

/// Does an instruction for the lanes in `active`, of which there is at least one.
using Handler = void (*)(Warp& warp, const Instruction& instruction, LaneMask active);

/// Where the 32 values of an operand are: a byte offset into the registers of the warp or, with the
/// highest bit set, into the constants of the program.
using Slot = std::uint32_t;
inline constexpr Slot no_slot = 0xffffffffu;
inline constexpr Slot constant_slot = 0x80000000u;

/// What happens after or instead of the handler.
enum class Control : unsigned char {
  next,            ///< nothing: the next instruction follows
  branch,          ///< to `target`
  indexed_branch,  ///< to one of Program::branch_targets
  exit,
  warp_sync,  ///< the handler runs once all lanes of the mask are here
  barrier     ///< of the block
};

enum class Compare : unsigned char {
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  equ,
  neu,
  ltu,
  leu,
  gtu,
  geu,
  num,
  nan
};
enum class Combine : unsigned char { none, and_, or_, xor_ };
enum class Rounding : unsigned char { nearest, zero, down, up };

/// Everything an instruction knows beyond its operands. Which members mean something depends on the
/// handler.
struct Modifiers {
  bool flush = false;     ///< .ftz
  bool saturate = false;  ///< .sat
  bool wrap = false;      ///< shf, bmsk
  bool strong = false;    ///< volatile, relaxed, acquire, release: synchronises, hence cannot race
  Compare compare = Compare::eq;
  Combine combine = Combine::none;
  Rounding rounding = Rounding::nearest;
  std::uint8_t kind = 0;  ///< one of an enumeration of the handler
};

inline constexpr int max_operands = 6;
/// Where an operation of several lanes has the mask that names them.
inline constexpr int members_operand = 5;

struct Instruction {
  Handler run = nullptr;
  std::array<Slot, max_operands> slots{no_slot, no_slot, no_slot, no_slot, no_slot, no_slot};
  Slot guard = no_slot;
  Slot pair = no_slot;       ///< the second destination, of `p|q`
  std::uint8_t negated = 0;  ///< bit k: slots[k] is a negated predicate
  bool guard_negated = false;
  Control control = Control::next;
  std::uint8_t elements = 1;        ///< of a vector access
  std::uint8_t bytes = 0;           ///< of one element in memory
  std::uint8_t register_bytes = 0;  ///< of one lane of a register, where it may differ
  std::uint8_t address_bytes = 8;   ///< of one lane of the register that holds the address
  Space space = Space::generic;
  Modifiers with;
  std::uint32_t target = 0;  ///< of a branch; first slot of a vector in Program::slots
  std::int64_t offset = 0;   ///< added to an address
};

/// What one instruction came from, for messages.
struct Origin {
  const Function* function = nullptr;
  const Statement* statement = nullptr;
};

enum class Special : unsigned char {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  dynamic_smem_size,
  total_smem_size,
  zero,
  one  ///< registers that are constant here, as %smid and %nsmid
};

struct SpecialRegister {
  Special what;
  Slot slot;
};

struct Parameter {
  std::size_t offset;
  std::size_t bytes;
};

struct Program {
  std::string name;
  const Module* module = nullptr;
  std::vector<Instruction> code;
  std::vector<Origin> origins;  ///< one for each instruction
  std::vector<Slot> slots;      ///< of vectors
  std::vector<std::vector<std::uint32_t>> branch_targets;
  std::vector<std::string> faults;  ///< what is wrong with statements that were not understood
  std::vector<SpecialRegister> specials;
  std::vector<std::uint64_t> constants;  ///< 32 equal values each, aligned as the widest
  std::size_t register_bytes = 0;        ///< of one warp
  std::vector<Parameter> parameters;
  std::size_t parameter_bytes = 0;
  std::size_t static_shared = 0;
  std::size_t dynamic_shared_begin = 0;
  std::size_t local_bytes = 0;  ///< of one thread
  int max_threads = 1024;
};

}  // namespace kvevict_ptx
