// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a PTX text says, still in terms of names. All string views refer to the text.
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "types.hpp"

namespace kvevict_ptx {

/// A PTX text that cannot be read or is not understood. The message names function and line.
class PtxError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Operand {
  enum class Kind : unsigned char {
    name,     ///< a register, variable, label or special register
    number,   ///< `value` holds its bits
    address,  ///< `[name + value]`, or `[value]` without a name
    vector,   ///< `{a, b}`, and the parenthesised lists of a call
    pair,     ///< `a | b`
    sink      ///< `_`
  };
  /// How a number was written: as an integer, or as the bits of a float or double.
  enum class Number : unsigned char { integer, f32, f64 };

  Kind kind = Kind::sink;
  Number number = Number::integer;
  bool negated = false;  ///< `!a`
  std::string_view name;
  std::uint64_t value = 0;
  std::vector<Operand> elements;
};

/// A place in the source that the PTX was made from; file 0 is unknown. Where a function was
/// inlined it is in that function, and `caller` says where that is.
struct SourcePlace {
  int file = 0;
  int line = 0;
  int caller_file = 0;
  int caller_line = 0;
};

struct Statement {
  std::string_view guard;
  bool guard_negated = false;
  std::string_view opcode;
  std::vector<Operand> operands;
  int scope = 0;
  int line = 0;
  SourcePlace source;
};

/// A variable of any space but registers, or a parameter.
struct Variable {
  std::string_view name;
  Space space = Space::generic;
  Type type = Type::none;
  int alignment = 1;
  std::int64_t bytes = 0;  ///< 0: an array of unknown length
  bool external = false;
  std::vector<Operand> initial;  ///< values of the array's first elements
};

/// Registers declared together: `%r<12>` are count 12 of prefix `%r`, a single one has count 0.
struct Registers {
  std::string_view prefix;
  Type type = Type::none;
  int count = 0;
  int scope = 0;
};

/// Names between a pair of braces. Values index the vectors of the function; targets its labels.
struct Scope {
  int parent = -1;
  std::unordered_map<std::string_view, int> registers;
  std::unordered_map<std::string_view, int> variables;
  std::unordered_map<std::string_view, int> labels;  ///< index of the statement that follows
  std::unordered_map<std::string_view, std::vector<std::string_view>> branch_targets;
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  bool has_body = false;
  int line = 0;
  int max_threads = 1024;
  std::vector<Variable> results;
  std::vector<Variable> parameters;
  std::vector<Scope> scopes;  ///< the first is the function's own
  std::vector<Registers> registers;
  std::vector<Variable> variables;
  std::vector<Statement> body;
};

struct Module {
  std::string text;
  std::string_view target;
  std::unordered_map<int, std::string_view> files;
  std::vector<Variable> variables;
  std::unordered_map<std::string_view, std::size_t> variable_index;
  std::unordered_map<std::string_view, Function> functions;
};

}  // namespace kvevict_ptx
