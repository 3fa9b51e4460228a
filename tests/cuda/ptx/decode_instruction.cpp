// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "decoder.hpp"

namespace kvevict_ptx {
namespace {

Space space_of(const Opcode& opcode) {
  for (const std::string_view suffix : opcode.suffixes) {
    if (const Space space = space_named(suffix); space != Space::generic) return space;
  }
  return Space::generic;
}

const Operand& operand_at(const Statement& statement, std::size_t k) {
  if (k >= statement.operands.size()) throw PtxError("too few operands");
  return statement.operands[k];
}

/// The handler of an instruction whose operands are registers and numbers in order.
Selection select_plain(const Opcode& opcode, Modifiers& with) {
  // Carries before integers: add.cc is not add.
  for (const auto select :
       {&select_predicate, &select_carry, &select_integer, &select_bits, &select_float,
        &select_approximate, &select_compare, &select_convert_pair, &select_collective}) {
    Modifiers own = with;
    const Selection selection = select(opcode, own);
    if (selection.run == nullptr) continue;
    with = own;
    return selection;
  }
  return {};
}

bool has_members(const Opcode& opcode) {
  return opcode.has("sync") &&
         (opcode.name == "shfl" || opcode.name == "vote" || opcode.name == "match" ||
          opcode.name == "redux" || opcode.name == "elect" || opcode.has("warp"));
}

}  // namespace

Instruction Decoder::decode_instruction(Frame& frame, const Statement& statement,
                                        const Opcode& opcode) {
  Instruction instruction = guarded(frame, statement);
  instruction.with = common_modifiers(opcode);
  instruction.space = space_of(opcode);
  const std::string_view name = opcode.name;
  if (name == "ld" || name == "ldu" || name == "st") {
    decode_access(frame, statement, opcode, instruction);
  } else if (name == "atom" || name == "red") {
    decode_atomic(frame, statement, opcode, instruction);
  } else if (name == "mov" && opcode.type() != Type::pred) {
    decode_move(frame, statement, opcode, instruction);
  } else if (name == "cvt" && opcode.type() != Type::f16x2 && opcode.type() != Type::bf16x2) {
    decode_convert(frame, statement, opcode, instruction);
  } else if ((name == "bar" || name == "barrier") && !opcode.has("warp")) {
    decode_barrier(frame, statement, opcode, instruction);
  } else if (name == "cp") {
    decode_async(frame, statement, opcode, instruction);
  } else if (name == "cvta" || name == "isspacep") {
    const Selection selection = select_address(opcode);
    set_operands(frame, statement, opcode, selection, instruction);
  } else if (const Selection effectless = select_effectless(opcode); effectless.run != nullptr) {
    instruction.run = effectless.run;
  } else {
    const Selection selection = select_plain(opcode, instruction.with);
    set_operands(frame, statement, opcode, selection, instruction);
  }
  return instruction;
}

void Decoder::set_operands(Frame& frame, const Statement& statement, const Opcode& opcode,
                           const Selection& selection, Instruction& instruction) {
  if (selection.run == nullptr) {
    throw PtxError("instruction '" + std::string(statement.opcode) + "'");
  }
  instruction.run = selection.run;
  const auto count = static_cast<std::size_t>(
      std::count_if(selection.widths.begin(), selection.widths.end(), [](int w) { return w > 0; }));
  const bool carries =
      opcode.has("cc") || opcode.name == "addc" || opcode.name == "subc" || opcode.name == "madc";
  if (statement.operands.size() + (carries ? 1 : 0) != count) {
    throw PtxError("another number of operands than expected");
  }
  for (std::size_t k = 0; k < count; ++k) {
    if (carries && k + 1 == count) {
      instruction.slots[k] = carry_slot();
      continue;
    }
    const Operand* operand = &statement.operands[k];
    if (operand->kind == Operand::Kind::pair) {
      const Operand& second = operand->elements[1];
      instruction.pair = operand_slot(frame, statement, second, 1);
      operand = &operand->elements[0];
    }
    if (operand->negated) instruction.negated |= static_cast<std::uint8_t>(1 << k);
    const bool is_mask = has_members(opcode) && k + 1 == count;
    instruction.slots[is_mask ? members_operand : k] =
        operand_slot(frame, statement, *operand, selection.widths[k]);
  }
  if (has_members(opcode)) instruction.control = Control::warp_sync;
}

void Decoder::set_address(Frame& frame, const Statement& statement, std::size_t operand,
                          Instruction& instruction) {
  const Operand& address = operand_at(statement, operand);
  if (address.kind != Operand::Kind::address) throw PtxError("an operand that is not an address");
  instruction.offset = static_cast<std::int64_t>(address.value);
  if (instruction.space == Space::param && !frame.function->is_entry) {
    instruction.space = Space::local;
  }
  if (address.name.empty()) {
    instruction.slots[operand] = constant(0, 8);
    return;
  }
  const Place place = find(frame, statement.scope, address.name);
  if (place.kind == Place::Kind::reg) {
    if (place.bytes != 4 && place.bytes != 8) throw PtxError("an address of unexpected width");
    instruction.address_bytes = static_cast<std::uint8_t>(place.bytes);
    instruction.slots[operand] = place.slot;
    return;
  }
  instruction.slots[operand] = variable_address(place, 8);
  // The parameters of functions and of calls are local variables here.
  if (instruction.space == Space::param) instruction.space = place.space;
}

int Decoder::set_vector(Frame& frame, const Statement& statement, const Operand& operand, int bytes,
                        Instruction& instruction) {
  for (const Operand& element : operand.elements) {
    const int wide = operand_bytes(frame, statement, element);
    if (wide > 0) bytes = wide;
  }
  instruction.elements = static_cast<std::uint8_t>(operand.elements.size());
  instruction.target = static_cast<std::uint32_t>(program_.slots.size());
  for (const Operand& element : operand.elements) {
    program_.slots.push_back(operand_slot(frame, statement, element, bytes));
  }
  return bytes;
}

void Decoder::decode_access(Frame& frame, const Statement& statement, const Opcode& opcode,
                            Instruction& instruction) {
  const bool loads = opcode.name != "st";
  const Operand& data = operand_at(statement, loads ? 0 : 1);
  const int bytes = size_of(opcode.type());
  int wide = bytes == 1 ? 2 : bytes;
  if (data.kind == Operand::Kind::vector) {
    wide = set_vector(frame, statement, data, wide, instruction);
    if (instruction.elements == 1) instruction.slots[loads ? 0 : 1] = program_.slots.back();
  } else {
    wide = std::max(wide, operand_bytes(frame, statement, data));
    instruction.slots[loads ? 0 : 1] = operand_slot(frame, statement, data, wide);
  }
  set_address(frame, statement, loads ? 1 : 0, instruction);
  instruction.with.kind = is_signed(opcode.type());
  instruction.run = loads ? select_load(instruction.space, bytes, wide)
                          : select_store(instruction.space, bytes, wide);
  if (instruction.run == nullptr) {
    throw PtxError("instruction '" + std::string(statement.opcode) + "'");
  }
}

void Decoder::decode_atomic(Frame& frame, const Statement& statement, const Opcode& opcode,
                            Instruction& instruction) {
  // red is an atom without a destination.
  Statement full = statement;
  if (opcode.name == "red") full.operands.insert(full.operands.begin(), Operand{});
  set_address(frame, full, 1, instruction);
  const int bytes = size_of(opcode.type());
  for (std::size_t k = 0; k < full.operands.size(); ++k) {
    if (k == 1) continue;
    instruction.slots.at(k) = operand_slot(frame, full, full.operands[k], bytes);
  }
  instruction.run = select_atomic(opcode, instruction.space);
  const std::size_t count = opcode.has("cas") ? 4 : 3;
  if (instruction.run == nullptr || full.operands.size() != count) {
    throw PtxError("instruction '" + std::string(statement.opcode) + "'");
  }
}

void Decoder::decode_move(Frame& frame, const Statement& statement, const Opcode& opcode,
                          Instruction& instruction) {
  const Operand& to = operand_at(statement, 0);
  const Operand& from = operand_at(statement, 1);
  const int bytes = size_of(opcode.type());
  const bool packs = from.kind == Operand::Kind::vector;
  if (packs || to.kind == Operand::Kind::vector) {
    const Operand& elements = packs ? from : to;
    const int each = bytes / static_cast<int>(std::max<std::size_t>(elements.elements.size(), 1));
    const int found = set_vector(frame, statement, elements, each, instruction);
    if (found != each || bytes > 8) throw PtxError("a vector of unexpected width");
    instruction.bytes = static_cast<std::uint8_t>(bytes);
    instruction.register_bytes = static_cast<std::uint8_t>(each);
    instruction.slots[packs ? 0 : 1] = operand_slot(frame, statement, packs ? to : from, bytes);
    instruction.run = select_pack(packs);
    return;
  }
  instruction.slots[0] = operand_slot(frame, statement, to, bytes);
  if (from.name.starts_with("%clock") || from.name.starts_with("%globaltimer")) {
    instruction.run = select_clock(bytes);
  } else {
    instruction.slots[1] = operand_slot(frame, statement, from, bytes);
    instruction.run = select_copy(bytes);
  }
  if (instruction.run == nullptr) {
    throw PtxError("instruction '" + std::string(statement.opcode) + "'");
  }
}

void Decoder::decode_convert(Frame& frame, const Statement& statement, const Opcode& opcode,
                             Instruction& instruction) {
  const Operand& from = operand_at(statement, 1);
  const int to_bytes = operand_bytes(frame, statement, operand_at(statement, 0));
  int from_bytes = operand_bytes(frame, statement, from);
  if (from_bytes == 0) from_bytes = size_of(opcode.type(1));
  instruction.bytes = static_cast<std::uint8_t>(from_bytes);
  instruction.register_bytes = static_cast<std::uint8_t>(to_bytes);
  instruction.slots[0] = operand_slot(frame, statement, statement.operands[0], to_bytes);
  instruction.slots[1] = operand_slot(frame, statement, from, from_bytes);
  instruction.run = select_convert(opcode, to_bytes, from_bytes, instruction.with);
  if (instruction.run == nullptr || statement.operands.size() != 2) {
    throw PtxError("instruction '" + std::string(statement.opcode) + "'");
  }
}

/// `bar.sync id`, `bar.red.op destination, id, predicate`: always of the whole block.
void Decoder::decode_barrier(Frame& frame, const Statement& statement, const Opcode& opcode,
                             Instruction& instruction) {
  const bool reduces = opcode.has("red");
  if (statement.operands.size() != (reduces ? 3 : 1) || (!reduces && !opcode.has("sync"))) {
    throw PtxError("a barrier for a part of the block");
  }
  instruction.control = Control::barrier;
  if (!reduces) return;
  const Selection selection = select_barrier_reduction(opcode, instruction.with);
  const Operand& predicate = statement.operands[2];
  instruction.run = selection.run;
  instruction.slots[0] = operand_slot(frame, statement, statement.operands[0], selection.widths[0]);
  instruction.slots[1] = operand_slot(frame, statement, predicate, 1);
  instruction.negated = predicate.negated ? 2 : 0;
}

void Decoder::decode_async(Frame& frame, const Statement& statement, const Opcode& opcode,
                           Instruction& instruction) {
  const Selection selection = select_async(opcode, instruction.with);
  if (selection.run == nullptr) {
    throw PtxError("instruction '" + std::string(statement.opcode) + "'");
  }
  instruction.run = selection.run;
  std::size_t k = 0;
  if (selection.widths[1] != 0) {
    const Operand& source = operand_at(statement, 1);
    if (source.kind != Operand::Kind::address || source.value != 0) {
      throw PtxError("cp.async with an offset to its source");
    }
    instruction.space = Space::shared;
    set_address(frame, statement, 0, instruction);
    Operand base = source;
    base.kind = Operand::Kind::name;
    instruction.slots[1] = operand_slot(frame, statement, base, 8);
    k = 2;
  }
  for (; k < statement.operands.size(); ++k) {
    instruction.slots.at(k) =
        operand_slot(frame, statement, statement.operands[k], selection.widths.at(k));
  }
}

}  // namespace kvevict_ptx
