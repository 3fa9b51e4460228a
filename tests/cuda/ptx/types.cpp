// SPDX-License-Identifier: Apache-2.0
#include "types.hpp"

#include <unordered_map>

namespace kvevict_ptx {

Type type_named(std::string_view name) {
  static const std::unordered_map<std::string_view, Type> types{
      {"pred", Type::pred}, {"b8", Type::b8},       {"u8", Type::u8},         {"s8", Type::s8},
      {"b16", Type::b16},   {"u16", Type::u16},     {"s16", Type::s16},       {"f16", Type::f16},
      {"bf16", Type::bf16}, {"b32", Type::b32},     {"u32", Type::u32},       {"s32", Type::s32},
      {"f32", Type::f32},   {"f16x2", Type::f16x2}, {"bf16x2", Type::bf16x2}, {"b64", Type::b64},
      {"u64", Type::u64},   {"s64", Type::s64},     {"f64", Type::f64},       {"b128", Type::b128}};
  const auto found = types.find(name);
  return found == types.end() ? Type::none : found->second;
}

int size_of(Type type) {
  switch (type) {
    case Type::none:
      return 0;
    case Type::pred:
    case Type::b8:
    case Type::u8:
    case Type::s8:
      return 1;
    case Type::b16:
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16:
      return 2;
    case Type::b32:
    case Type::u32:
    case Type::s32:
    case Type::f32:
    case Type::f16x2:
    case Type::bf16x2:
      return 4;
    case Type::b64:
    case Type::u64:
    case Type::s64:
    case Type::f64:
      return 8;
    case Type::b128:
      return 16;
  }
  return 0;
}

bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

bool is_float(Type type) {
  return type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64;
}

Space space_named(std::string_view name) {
  name = name.substr(0, name.find("::"));
  if (name == "global") return Space::global;
  if (name == "shared") return Space::shared;
  if (name == "local") return Space::local;
  if (name == "param") return Space::param;
  if (name == "const") return Space::constant;
  if (name == "reg") return Space::reg;
  return Space::generic;
}

}  // namespace kvevict_ptx
