// SPDX-License-Identifier: Apache-2.0
#include "decoder.hpp"

#include <algorithm>

#include "failure.hpp"
#include "faults.hpp"

namespace kvevict_ptx {

Program decode(const Module& module, const Function& entry, const VariableAddress& address) {
  return Decoder(module, entry, address).run();
}

Decoder::Decoder(const Module& module, const Function& entry, const VariableAddress& address)
    : module_(module), entry_(entry), address_(address) {}

Program Decoder::run() {
  program_.name = entry_.name;
  program_.module = &module_;
  program_.max_threads = entry_.max_threads;
  Frame frame;
  frame.function = &entry_;
  add_parameters(frame);
  add_function(frame);
  Instruction end;
  end.control = Control::exit;
  add(end, frame, nullptr);
  place_dynamic_shared();
  constexpr std::size_t alignment = 64;  // of the registers of each warp
  program_.register_bytes = (program_.register_bytes + alignment - 1) / alignment * alignment;
  return std::move(program_);
}

void Decoder::add_parameters(Frame& frame) {
  for (const Variable& parameter : entry_.parameters) {
    const auto offset = static_cast<std::size_t>(allocate(program_.parameter_bytes, parameter));
    program_.parameters.push_back({offset, static_cast<std::size_t>(parameter.bytes)});
    frame.bound[parameter.name] = offset;
  }
}

void Decoder::add(const Instruction& instruction, const Frame& frame, const Statement* statement) {
  program_.code.push_back(instruction);
  program_.origins.push_back({frame.function, statement});
}

void Decoder::add_function(Frame& frame) {
  const Function& function = *frame.function;
  storage(function).in_use = true;
  for (const Statement& statement : function.body) {
    frame.places.push_back(static_cast<std::uint32_t>(program_.code.size()));
    try {
      add_statement(frame, statement);
    } catch (const PtxError& error) {
      program_.faults.push_back(error.what());
      Instruction fault;
      fault.run = &report_fault;
      fault.target = static_cast<std::uint32_t>(program_.faults.size() - 1);
      add(fault, frame, &statement);
    }
  }
  frame.places.push_back(static_cast<std::uint32_t>(program_.code.size()));
  for (const auto& [instruction, statement] : frame.jumps) {
    program_.code[instruction].target = frame.places[static_cast<std::size_t>(statement)];
  }
  for (const auto& [table, statement] : frame.table_jumps) {
    program_.branch_targets[table].push_back(frame.places[static_cast<std::size_t>(statement)]);
  }
  storage(function).in_use = false;
}

Instruction Decoder::guarded(Frame& frame, const Statement& statement) {
  Instruction instruction;
  if (statement.guard.empty()) return instruction;
  const Place place = find(frame, statement.scope, statement.guard);
  if (place.bytes != 1) throw PtxError("the guard is not a predicate");
  instruction.guard = place.slot;
  instruction.guard_negated = statement.guard_negated;
  return instruction;
}

void Decoder::add_statement(Frame& frame, const Statement& statement) {
  const Opcode opcode(statement.opcode);
  if (opcode.name == "call") {
    add_call(frame, statement);
  } else if (!add_control(frame, statement, opcode)) {
    add(decode_instruction(frame, statement, opcode), frame, &statement);
  }
}

bool Decoder::add_control(Frame& frame, const Statement& statement, const Opcode& opcode) {
  Instruction instruction = guarded(frame, statement);
  if (opcode.name == "bra") {
    add_jump(frame, instruction, label(frame, statement, statement.operands.at(0).name),
             &statement);
  } else if (opcode.name == "brx") {
    add_indexed_branch(frame, statement, instruction);
  } else if (opcode.name == "exit" || (opcode.name == "ret" && frame.function->is_entry)) {
    instruction.control = Control::exit;
    add(instruction, frame, &statement);
  } else if (opcode.name == "ret") {
    add_jump(frame, instruction, static_cast<int>(frame.function->body.size()), &statement);
  } else {
    return false;
  }
  return true;
}

void Decoder::add_jump(Frame& frame, Instruction instruction, int to, const Statement* statement) {
  instruction.control = Control::branch;
  frame.jumps.emplace_back(program_.code.size(), to);
  add(instruction, frame, statement);
}

int Decoder::label(const Frame& frame, const Statement& statement, std::string_view name) const {
  const auto& scopes = frame.function->scopes;
  for (int s = statement.scope; s >= 0; s = scopes[static_cast<std::size_t>(s)].parent) {
    const auto& labels = scopes[static_cast<std::size_t>(s)].labels;
    if (const auto found = labels.find(name); found != labels.end()) return found->second;
  }
  throw PtxError("label '" + std::string(name) + "' does not exist");
}

void Decoder::add_indexed_branch(Frame& frame, const Statement& statement,
                                 Instruction instruction) {
  instruction.control = Control::indexed_branch;
  instruction.slots[0] = operand_slot(frame, statement, statement.operands.at(0), 4);
  instruction.target = static_cast<std::uint32_t>(program_.branch_targets.size());
  const std::string_view list = statement.operands.at(1).name;
  const auto& scopes = frame.function->scopes;
  for (int s = statement.scope; s >= 0; s = scopes[static_cast<std::size_t>(s)].parent) {
    const auto& lists = scopes[static_cast<std::size_t>(s)].branch_targets;
    const auto found = lists.find(list);
    if (found == lists.end()) continue;
    for (const std::string_view target : found->second) {
      frame.table_jumps.emplace_back(instruction.target, label(frame, statement, target));
    }
    program_.branch_targets.emplace_back();
    add(instruction, frame, &statement);
    return;
  }
  throw PtxError("list of targets '" + std::string(list) + "' does not exist");
}

namespace {

/// Actual names of a call's parenthesised list.
void bind(const std::vector<Variable>& formal, const Operand* actual, const auto& offset_of,
          std::unordered_map<std::string_view, std::uint64_t>& bound) {
  const std::size_t count = actual != nullptr ? actual->elements.size() : 0;
  if (count != formal.size()) throw PtxError("a call with another number of parameters");
  for (std::size_t k = 0; k < count; ++k) {
    bound[formal[k].name] = offset_of(actual->elements[k].name);
  }
}

}  // namespace

/// `call (result), function, (parameters);` with the first and last part optional.
void Decoder::add_call(Frame& frame, const Statement& statement) {
  const auto& operands = statement.operands;
  const bool has_result = !operands.empty() && operands[0].kind == Operand::Kind::vector;
  const std::size_t name = has_result ? 1 : 0;
  if (operands.size() <= name) throw PtxError("a call of nothing");
  const auto found = module_.functions.find(operands[name].name);
  if (found == module_.functions.end()) throw PtxError("an indirect call");
  const Function& callee = found->second;
  const auto offset_of = [&](std::string_view variable) {
    const Place place = find(frame, statement.scope, variable);
    if (place.space != Space::local) throw PtxError("a call with an unexpected kind of parameter");
    return place.value;
  };
  Frame inner;
  inner.function = &callee;
  const bool has_parameters = operands.size() > name + 1;
  bind(callee.parameters, has_parameters ? &operands[name + 1] : nullptr, offset_of, inner.bound);
  bind(callee.results, has_result ? &operands[0] : nullptr, offset_of, inner.bound);

  Instruction entry = guarded(frame, statement);
  if (!callee.has_body) {
    entry.run = callee.name == "__assertfail" ? &report_assertion : &report_fault;
    if (entry.run == &report_assertion) {
      entry.offset = static_cast<std::int64_t>(inner.bound[callee.parameters.at(0).name]);
    } else {
      program_.faults.push_back("a call of '" + std::string(callee.name) +
                                "', which has no body here");
      entry.target = static_cast<std::uint32_t>(program_.faults.size() - 1);
    }
    add(entry, frame, &statement);
    return;
  }
  if (storage(callee).in_use) throw PtxError("a recursive call");
  if (entry.guard != no_slot) {  // lanes that do not call go on behind the body
    entry.guard_negated = !entry.guard_negated;
    const auto next = static_cast<int>(&statement - frame.function->body.data()) + 1;
    add_jump(frame, entry, next, &statement);
  }
  add_function(inner);
}

}  // namespace kvevict_ptx
