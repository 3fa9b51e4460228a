// SPDX-License-Identifier: Apache-2.0
#include "opcode.hpp"

#include <algorithm>

namespace kvevict_ptx {

Opcode::Opcode(std::string_view text) {
  std::size_t dot = text.find('.');
  name = text.substr(0, dot);
  while (dot != std::string_view::npos) {
    const std::size_t next = text.find('.', dot + 1);
    const std::string_view suffix = text.substr(dot + 1, next - dot - 1);
    suffixes.push_back(suffix);
    if (const Type type = type_named(suffix); type != Type::none) types.push_back(type);
    dot = next;
  }
}

bool Opcode::has(std::string_view suffix) const {
  return std::find(suffixes.begin(), suffixes.end(), suffix) != suffixes.end();
}

Modifiers common_modifiers(const Opcode& opcode) {
  Modifiers with;
  with.flush = opcode.has("ftz");
  with.saturate = opcode.has("sat");
  with.wrap = opcode.has("wrap");
  for (const std::string_view strong : {"volatile", "relaxed", "acquire", "release", "mmio"}) {
    with.strong |= opcode.has(strong);
  }
  if (opcode.has("rz") || opcode.has("rzi")) with.rounding = Rounding::zero;
  if (opcode.has("rm") || opcode.has("rmi")) with.rounding = Rounding::down;
  if (opcode.has("rp") || opcode.has("rpi")) with.rounding = Rounding::up;
  return with;
}

}  // namespace kvevict_ptx
