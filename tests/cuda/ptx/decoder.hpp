// SPDX-License-Identifier: Apache-2.0
#pragma once

// From statements to instructions. Calls are replaced by the bodies of the functions, whose
// registers and local variables get one place for all calls of a kernel: there is no recursion, and
// lanes that are in different calls are different lanes.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "opcode.hpp"
#include "program.hpp"
#include "syntax.hpp"

namespace kvevict_ptx {

/// The address of a variable of the module, by name.
using VariableAddress = std::function<std::uint64_t(std::string_view name)>;

/// Throws PtxError if the kernel cannot be read at all. A statement that is not understood becomes
/// an instruction that reports it when it is executed.
Program decode(const Module& module, const Function& entry, const VariableAddress& address);

class Decoder {
 public:
  Decoder(const Module& module, const Function& entry, const VariableAddress& address);
  Program run();

 private:
  /// Where a name leads.
  struct Place {
    enum class Kind : unsigned char { reg, variable } kind = Kind::reg;
    Slot slot = no_slot;  ///< of a register
    int bytes = 0;        ///< of a register's lane; 1 for a predicate
    Space space = Space::generic;
    std::uint64_t value = 0;  ///< of a variable: its address in its space
    bool is_dynamic_shared = false;
  };
  /// One function while its body is being decoded.
  struct Frame {
    const Function* function = nullptr;
    /// Offsets in local memory of what its parameters and results are bound to.
    std::unordered_map<std::string_view, std::uint64_t> bound;
    std::vector<std::uint32_t> places;               ///< of statements in the program
    std::vector<std::pair<std::size_t, int>> jumps;  ///< instruction, index of the target statement
    std::vector<std::pair<std::size_t, int>> table_jumps;  ///< the same for branch_targets
  };
  /// What a function owns, once for all of its calls.
  struct Storage {
    std::vector<Slot> registers;
    std::vector<std::int64_t> variables;  ///< offset in local or shared memory, or -1
    bool in_use = false;
  };

  // decoder.cpp: functions, calls, control
  void add_parameters(Frame& frame);
  void add_function(Frame& frame);
  void add_statement(Frame& frame, const Statement& statement);
  bool add_control(Frame& frame, const Statement& statement, const Opcode& opcode);
  void add_call(Frame& frame, const Statement& statement);
  void add_jump(Frame& frame, Instruction instruction, int to, const Statement* statement);
  void add_indexed_branch(Frame& frame, const Statement& statement, Instruction instruction);
  void add(const Instruction& instruction, const Frame& frame, const Statement* statement);
  int label(const Frame& frame, const Statement& statement, std::string_view name) const;
  Instruction guarded(Frame& frame, const Statement& statement);

  // decode_instruction.cpp: everything that has a handler
  Instruction decode_instruction(Frame& frame, const Statement& statement, const Opcode& opcode);
  void decode_access(Frame& frame, const Statement& statement, const Opcode& opcode,
                     Instruction& instruction);
  void decode_atomic(Frame& frame, const Statement& statement, const Opcode& opcode,
                     Instruction& instruction);
  void decode_move(Frame& frame, const Statement& statement, const Opcode& opcode,
                   Instruction& instruction);
  void decode_convert(Frame& frame, const Statement& statement, const Opcode& opcode,
                      Instruction& instruction);
  void decode_barrier(Frame& frame, const Statement& statement, const Opcode& opcode,
                      Instruction& instruction);
  void decode_async(Frame& frame, const Statement& statement, const Opcode& opcode,
                    Instruction& instruction);
  void set_operands(Frame& frame, const Statement& statement, const Opcode& opcode,
                    const Selection& selection, Instruction& instruction);
  void set_address(Frame& frame, const Statement& statement, std::size_t operand,
                   Instruction& instruction);
  /// Puts the elements of a vector into Program::slots; returns the bytes of a lane of each.
  int set_vector(Frame& frame, const Statement& statement, const Operand& operand, int bytes,
                 Instruction& instruction);

  // decode_names.cpp: names, registers, numbers
  Place find(Frame& frame, int scope, std::string_view name);
  Place find_variable(Frame& frame, const Function& function, std::size_t index);
  Slot register_slot(const Function& function, std::size_t declaration, int number);
  Slot special_slot(std::string_view name);
  Slot carry_slot();
  Slot operand_slot(Frame& frame, const Statement& statement, const Operand& operand, int bytes);
  int operand_bytes(Frame& frame, const Statement& statement, const Operand& operand);
  Slot constant(std::uint64_t value, int bytes);
  Slot add_constant(std::uint64_t value, int bytes);
  void fill_constant(Slot slot, std::uint64_t value, std::size_t width, std::size_t count);
  Slot variable_address(const Place& place, int bytes);
  std::int64_t allocate(std::size_t& end, const Variable& variable) const;
  Storage& storage(const Function& function);
  void place_dynamic_shared();

  const Module& module_;
  const Function& entry_;
  const VariableAddress& address_;
  Program program_;
  std::unordered_map<const Function*, Storage> storage_;
  std::unordered_map<std::string_view, std::int64_t> shared_of_module_;
  std::map<std::pair<std::uint64_t, int>, Slot> constants_;
  std::unordered_map<std::string_view, Slot> specials_;
  std::map<int, Slot> dynamic_shared_;  ///< its address, as constants of so many bytes
  Slot carry_ = no_slot;
};

}  // namespace kvevict_ptx
