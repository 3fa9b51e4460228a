// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "decoder.hpp"

namespace kvevict_ptx {
namespace {

const std::unordered_map<std::string_view, Special> special_names{
    {"%tid.x", Special::tid_x},
    {"%tid.y", Special::tid_y},
    {"%tid.z", Special::tid_z},
    {"%ntid.x", Special::ntid_x},
    {"%ntid.y", Special::ntid_y},
    {"%ntid.z", Special::ntid_z},
    {"%ctaid.x", Special::ctaid_x},
    {"%ctaid.y", Special::ctaid_y},
    {"%ctaid.z", Special::ctaid_z},
    {"%nctaid.x", Special::nctaid_x},
    {"%nctaid.y", Special::nctaid_y},
    {"%nctaid.z", Special::nctaid_z},
    {"%laneid", Special::laneid},
    {"%warpid", Special::warpid},
    {"%nwarpid", Special::nwarpid},
    {"%lanemask_eq", Special::lanemask_eq},
    {"%lanemask_lt", Special::lanemask_lt},
    {"%lanemask_le", Special::lanemask_le},
    {"%lanemask_gt", Special::lanemask_gt},
    {"%lanemask_ge", Special::lanemask_ge},
    {"%dynamic_smem_size", Special::dynamic_smem_size},
    {"%total_smem_size", Special::total_smem_size},
    {"%smid", Special::zero},
    {"%nsmid", Special::one},
    {"%cluster_ctarank", Special::zero},
    {"%cluster_nctarank", Special::one}};

std::size_t rounded_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

std::uint64_t bits_for(const Operand& number, int bytes) {
  if (number.number == Operand::Number::f64 && bytes == 4) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(number.value)));
  }
  if (number.number == Operand::Number::f32 && bytes == 8) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(number.value));
    return std::bit_cast<std::uint64_t>(static_cast<double>(value));
  }
  return number.value;
}

}  // namespace

Decoder::Storage& Decoder::storage(const Function& function) {
  const auto [found, is_new] = storage_.try_emplace(&function);
  Storage& owned = found->second;
  if (!is_new) return owned;
  for (const Registers& declared : function.registers) {
    const bool is_predicate = declared.type == Type::pred;
    // Predicates are words; the arrays of all others are aligned for vector instructions.
    program_.register_bytes = rounded_up(program_.register_bytes, is_predicate ? 4 : 16);
    owned.registers.push_back(static_cast<Slot>(program_.register_bytes));
    program_.register_bytes +=
        static_cast<std::size_t>(std::max(declared.count, 1)) *
        static_cast<std::size_t>(is_predicate ? 4 : size_of(declared.type) * warp_lanes);
  }
  owned.variables.assign(function.variables.size(), -1);
  return owned;
}

Slot Decoder::register_slot(const Function& function, std::size_t declaration, int number) {
  const Type type = function.registers[declaration].type;
  const int stride = type == Type::pred ? 4 : size_of(type) * warp_lanes;
  return storage(function).registers[declaration] + static_cast<Slot>(number * stride);
}

std::int64_t Decoder::allocate(std::size_t& end, const Variable& variable) const {
  const std::size_t begin = rounded_up(end, static_cast<std::size_t>(variable.alignment));
  end = begin + static_cast<std::size_t>(variable.bytes);
  return static_cast<std::int64_t>(begin);
}

Decoder::Place Decoder::find_variable(Frame& frame, const Function& function, std::size_t index) {
  const Variable& variable = function.variables[index];
  Place place;
  place.kind = Place::Kind::variable;
  place.space = variable.space == Space::param ? Space::local : variable.space;
  std::int64_t& offset = storage(*frame.function).variables[index];
  if (place.space == Space::shared && variable.bytes == 0) {
    place.is_dynamic_shared = true;
    return place;
  }
  if (offset < 0) {
    if (place.space != Space::shared && place.space != Space::local) {
      throw PtxError("variable '" + std::string(variable.name) + "' is in an unexpected space");
    }
    offset = allocate(place.space == Space::shared ? program_.static_shared : program_.local_bytes,
                      variable);
  }
  place.value = static_cast<std::uint64_t>(offset);
  return place;
}

Decoder::Place Decoder::find(Frame& frame, int scope, std::string_view name) {
  const Function& function = *frame.function;
  // `%r12` is number 12 of the registers declared as `%r<59>`.
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  const std::string_view prefix = name.substr(0, digits);
  int number = -1;
  std::from_chars(name.data() + digits, name.data() + name.size(), number);
  for (int s = scope; s >= 0; s = function.scopes[static_cast<std::size_t>(s)].parent) {
    const Scope& names = function.scopes[static_cast<std::size_t>(s)];
    auto found = names.registers.find(name);
    int index = 0;
    if (found == names.registers.end() && number >= 0) {
      found = names.registers.find(prefix);
      index = number;
    }
    if (found != names.registers.end()) {
      const auto declaration = static_cast<std::size_t>(found->second);
      const Registers& declared = function.registers[declaration];
      if (index < std::max(declared.count, 1)) {
        Place place;
        place.slot = register_slot(function, declaration, index);
        place.bytes = size_of(declared.type);
        return place;
      }
    }
    if (const auto variable = names.variables.find(name); variable != names.variables.end()) {
      return find_variable(frame, function, static_cast<std::size_t>(variable->second));
    }
  }
  Place place;
  place.kind = Place::Kind::variable;
  if (const auto bound = frame.bound.find(name); bound != frame.bound.end()) {
    place.space = function.is_entry ? Space::param : Space::local;
    place.value = bound->second;
    return place;
  }
  const auto in_module = module_.variable_index.find(name);
  if (in_module == module_.variable_index.end()) {
    throw PtxError("'" + std::string(name) + "' is not declared");
  }
  const Variable& variable = module_.variables[in_module->second];
  place.space = variable.space;
  if (variable.space != Space::shared) {
    place.value = address_(name);
  } else if (variable.bytes == 0) {
    place.is_dynamic_shared = true;
  } else {
    const auto [offset, is_new] = shared_of_module_.try_emplace(name, 0);
    if (is_new) offset->second = allocate(program_.static_shared, variable);
    place.value = static_cast<std::uint64_t>(offset->second);
  }
  return place;
}

Slot Decoder::add_constant(std::uint64_t value, int bytes) {
  const std::size_t begin = program_.constants.size() * sizeof(std::uint64_t);
  const auto width = static_cast<std::size_t>(bytes == 1 ? 4 : bytes);
  const std::size_t count = bytes == 1 ? 1 : warp_lanes;
  program_.constants.resize(program_.constants.size() + (width * count + 7) / 8);
  const auto slot = constant_slot + static_cast<Slot>(begin);
  fill_constant(slot, value, width, count);
  return slot;
}

void Decoder::fill_constant(Slot slot, std::uint64_t value, std::size_t width, std::size_t count) {
  auto* to = reinterpret_cast<std::byte*>(program_.constants.data()) + (slot - constant_slot);
  for (std::size_t k = 0; k < count; ++k) std::memcpy(to + k * width, &value, width);
}

Slot Decoder::constant(std::uint64_t value, int bytes) {
  if (bytes == 1) value = value != 0 ? 0xffffffffu : 0;
  const auto [found, is_new] = constants_.try_emplace({value, bytes}, no_slot);
  if (is_new) found->second = add_constant(value, bytes);
  return found->second;
}

Slot Decoder::variable_address(const Place& place, int bytes) {
  if (!place.is_dynamic_shared) return constant(place.value, bytes);
  // Where it begins is known when all static shared memory is.
  const auto [found, is_new] = dynamic_shared_.try_emplace(bytes, no_slot);
  if (is_new) found->second = add_constant(0, bytes);
  return found->second;
}

void Decoder::place_dynamic_shared() {
  program_.dynamic_shared_begin = rounded_up(program_.static_shared, 16);
  for (const auto& [bytes, slot] : dynamic_shared_) {
    fill_constant(slot, program_.dynamic_shared_begin, static_cast<std::size_t>(bytes), warp_lanes);
  }
}

Slot Decoder::special_slot(std::string_view name) {
  if (const auto known = specials_.find(name); known != specials_.end()) return known->second;
  const auto found = special_names.find(name);
  if (found == special_names.end()) {
    throw PtxError("special register '" + std::string(name) + "' is not supported");
  }
  program_.register_bytes = rounded_up(program_.register_bytes, 16);
  const auto slot = static_cast<Slot>(program_.register_bytes);
  program_.register_bytes += warp_lanes * sizeof(std::uint32_t);
  program_.specials.push_back({found->second, slot});
  return specials_[name] = slot;
}

Slot Decoder::carry_slot() {
  if (carry_ == no_slot) {
    program_.register_bytes = rounded_up(program_.register_bytes, 4);
    carry_ = static_cast<Slot>(program_.register_bytes);
    program_.register_bytes += 4;
  }
  return carry_;
}

int Decoder::operand_bytes(Frame& frame, const Statement& statement, const Operand& operand) {
  if (operand.kind != Operand::Kind::name || special_names.contains(operand.name)) return 0;
  const Place place = find(frame, statement.scope, operand.name);
  return place.kind == Place::Kind::reg ? place.bytes : 0;
}

Slot Decoder::operand_slot(Frame& frame, const Statement& statement, const Operand& operand,
                           int bytes) {
  if (operand.kind == Operand::Kind::sink) return no_slot;
  if (operand.kind == Operand::Kind::number) return constant(bits_for(operand, bytes), bytes);
  if (operand.kind != Operand::Kind::name) throw PtxError("an operand of unexpected form");
  const bool is_special = special_names.contains(operand.name);
  if (is_special && bytes == 4) return special_slot(operand.name);
  const Place place = find(frame, statement.scope, operand.name);
  if (place.kind == Place::Kind::variable) return variable_address(place, bytes);
  if (place.bytes != bytes) {
    throw PtxError("operand '" + std::string(operand.name) + "' has " +
                   std::to_string(8 * place.bytes) + " bits instead of " +
                   std::to_string(8 * bytes));
  }
  return place.slot;
}

}  // namespace kvevict_ptx
