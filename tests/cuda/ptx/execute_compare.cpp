// SPDX-License-Identifier: Apache-2.0
// Comparisons and selections, and arithmetic on predicates.
#include <type_traits>
#include <utility>

#include "float_math.hpp"
#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

constexpr std::array<std::pair<std::string_view, Compare>, 18> compare_names{
    {{"eq", Compare::eq},
     {"ne", Compare::ne},
     {"lt", Compare::lt},
     {"le", Compare::le},
     {"gt", Compare::gt},
     {"ge", Compare::ge},
     {"lo", Compare::lt},
     {"ls", Compare::le},
     {"hi", Compare::gt},
     {"hs", Compare::ge},
     {"equ", Compare::equ},
     {"neu", Compare::neu},
     {"ltu", Compare::ltu},
     {"leu", Compare::leu},
     {"gtu", Compare::gtu},
     {"geu", Compare::geu},
     {"num", Compare::num},
     {"nan", Compare::nan}}};

// The ordered comparisons are false for NaN, "not equal" included; the unordered ones are true.
template <class T>
bool holds(Compare compare, T a, T b) {
  const bool unordered = a != a || b != b;
  switch (compare) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return !unordered && a != b;
    case Compare::lt:
      return a < b;
    case Compare::le:
      return a <= b;
    case Compare::gt:
      return a > b;
    case Compare::ge:
      return a >= b;
    case Compare::equ:
      return unordered || a == b;
    case Compare::neu:
      return unordered || a != b;
    case Compare::ltu:
      return unordered || a < b;
    case Compare::leu:
      return unordered || a <= b;
    case Compare::gtu:
      return unordered || a > b;
    case Compare::geu:
      return unordered || a >= b;
    case Compare::num:
      return !unordered;
    case Compare::nan:
      return unordered;
  }
  return false;
}

/// One loop for each comparison, which the compiler vectorises.
template <class T, Compare compare>
LaneMask compare_all(const T* a, const T* b) {
  LaneValues<unsigned char> truths;
  for (std::size_t i = 0; i < truths.size(); ++i) truths[i] = holds(compare, a[i], b[i]);
  return pack_bits(truths);
}

template <class T>
constexpr auto compare_functions = []<std::size_t... k>(std::index_sequence<k...>) {
  return std::array{&compare_all<T, static_cast<Compare>(k)>...};
}
(std::make_index_sequence<static_cast<std::size_t>(Compare::nan) + 1>{});

template <class T>
LaneMask compared(const Warp& warp, const Instruction& instruction) {
  const T* a = warp.lanes<T>(instruction.slots[1]);
  const T* b = warp.lanes<T>(instruction.slots[2]);
  if (instruction.with.flush) {
    LaneValues<unsigned char> truths{};
    if constexpr (std::is_floating_point_v<T>) {
      for (std::size_t i = 0; i < truths.size(); ++i) {
        truths[i] = holds(instruction.with.compare, flushed(a[i]), flushed(b[i]));
      }
    }
    return pack_bits(truths);
  }
  return compare_functions<T>[static_cast<std::size_t>(instruction.with.compare)](a, b);
}

LaneMask combined(Combine combine, LaneMask a, LaneMask b) {
  switch (combine) {
    case Combine::none:
      return a;
    case Combine::and_:
      return a & b;
    case Combine::or_:
      return a | b;
    case Combine::xor_:
      return a ^ b;
  }
  return a;
}

/// The second destination receives the combination with the complement of the comparison.
template <class T>
void set_predicates(Warp& warp, const Instruction& instruction, LaneMask active) {
  const LaneMask truth = compared<T>(warp, instruction);
  const Combine combine = instruction.with.combine;
  const LaneMask other = combine == Combine::none ? 0 : warp.predicate(instruction, 3);
  const LaneMask complement = combined(combine, ~truth, other);
  warp.set_predicate(instruction.slots[0], combined(combine, truth, other), active);
  if (instruction.pair != no_slot) warp.set_predicate(instruction.pair, complement, active);
}

/// set: all bits, or 1.0.
template <class T>
void set_value(Warp& warp, const Instruction& instruction, LaneMask active) {
  const Combine combine = instruction.with.combine;
  const LaneMask other = combine == Combine::none ? 0 : warp.predicate(instruction, 3);
  const LaneMask truth = combined(combine, compared<T>(warp, instruction), other);
  const std::uint32_t yes =
      instruction.with.kind != 0 ? std::bit_cast<std::uint32_t>(1.0f) : all_lanes;
  LaneValues<std::uint32_t> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (truth >> i & 1) != 0 ? yes : 0;
  store(warp, instruction.slots[0], values, active);
}

template <class T>
void select_values(Warp& warp, const Instruction& instruction, LaneMask active) {
  const T* a = warp.lanes<T>(instruction.slots[1]);
  const T* b = warp.lanes<T>(instruction.slots[2]);
  const LaneMask chosen = warp.predicate(instruction, 3);
  LaneValues<T> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (chosen >> i & 1) != 0 ? a[i] : b[i];
  store(warp, instruction.slots[0], values, active);
}

/// slct: chooses by the sign of the last operand.
template <class T, class Sign>
void select_by_sign(Warp& warp, const Instruction& instruction, LaneMask active) {
  const T* a = warp.lanes<T>(instruction.slots[1]);
  const T* b = warp.lanes<T>(instruction.slots[2]);
  const Sign* sign = warp.lanes<Sign>(instruction.slots[3]);
  LaneValues<T> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = sign[i] >= 0 ? a[i] : b[i];
  store(warp, instruction.slots[0], values, active);
}

enum TestKind : std::uint8_t { finite, infinite, number, not_a_number, normal, subnormal };
constexpr std::array<std::string_view, 6> test_names{"finite",     "infinite", "number",
                                                     "notanumber", "normal",   "subnormal"};

template <class T>
void test_property(Warp& warp, const Instruction& instruction, LaneMask active) {
  const T* a = warp.lanes<T>(instruction.slots[1]);
  LaneMask truth = 0;
  for_each_lane(active, [&](int lane) {
    const int kind = std::fpclassify(a[lane]);
    const bool answers[] = {std::isfinite(a[lane]), kind == FP_INFINITE, kind != FP_NAN,
                            kind == FP_NAN,         kind == FP_NORMAL,   kind == FP_SUBNORMAL};
    truth |= static_cast<LaneMask>(answers[instruction.with.kind]) << lane;
  });
  warp.set_predicate(instruction.slots[0], truth, active);
}

template <Combine combine>
void combine_predicates(Warp& warp, const Instruction& instruction, LaneMask active) {
  warp.set_predicate(
      instruction.slots[0],
      combined(combine, warp.predicate(instruction, 1), warp.predicate(instruction, 2)), active);
}
template <bool inverts>
void copy_predicate(Warp& warp, const Instruction& instruction, LaneMask active) {
  const LaneMask bits = warp.predicate(instruction, 1);
  warp.set_predicate(instruction.slots[0], inverts ? ~bits : bits, active);
}

/// Finds the comparison among the suffixes, and how it is combined with a predicate.
bool read_comparison(const Opcode& opcode, Modifiers& with) {
  bool found = false;
  for (const std::string_view suffix : opcode.suffixes) {
    for (const auto& [name, compare] : compare_names) {
      if (suffix == name) with.compare = compare, found = true;
    }
    if (suffix == "and") with.combine = Combine::and_;
    if (suffix == "or") with.combine = Combine::or_;
    if (suffix == "xor") with.combine = Combine::xor_;
  }
  return found;
}

template <class F>
Selection with_number(Type type, F f) {
  if (type == Type::f32) return f(float{});
  if (type == Type::f64) return f(double{});
  return with_integer(type, f);
}

template <class T>
Selection select_choice(const Opcode& opcode) {
  constexpr std::uint8_t size = sizeof(T);
  if (opcode.name == "selp") return {&select_values<T>, {size, size, size, 1}};
  if (opcode.type(1) == Type::s32) {
    return {&select_by_sign<T, std::int32_t>, {size, size, size, 4}};
  }
  if (opcode.type(1) == Type::f32) return {&select_by_sign<T, float>, {size, size, size, 4}};
  return {};
}

}  // namespace

Selection select_compare(const Opcode& opcode, Modifiers& with) {
  const std::string_view name = opcode.name;
  if (name == "selp" || name == "slct") {
    return with_number(opcode.type(), [&](auto value) -> Selection {
      return select_choice<decltype(value)>(opcode);
    });
  }
  if (name == "testp") {
    for (std::size_t k = 0; k < test_names.size(); ++k) {
      if (!opcode.has(test_names[k])) continue;
      with.kind = static_cast<std::uint8_t>(k);
      if (opcode.type() == Type::f32) return {&test_property<float>, {1, 4}};
      if (opcode.type() == Type::f64) return {&test_property<double>, {1, 8}};
    }
    return {};
  }
  if ((name != "setp" && name != "set") || !read_comparison(opcode, with)) return {};
  const std::uint8_t combines = with.combine != Combine::none;
  const bool to_predicate = name == "setp";
  if (!to_predicate && size_of(opcode.type()) != 4) return {};
  with.kind = opcode.type() == Type::f32 ? 1 : 0;
  return with_number(opcode.type(to_predicate ? 0 : 1), [&](auto value) -> Selection {
    using T = decltype(value);
    constexpr std::uint8_t size = sizeof(T);
    if (to_predicate) return {&set_predicates<T>, {1, size, size, combines}};
    return {&set_value<T>, {4, size, size, combines}};
  });
}

Selection select_predicate(const Opcode& opcode, Modifiers&) {
  if (opcode.type() != Type::pred) return {};
  const std::string_view name = opcode.name;
  if (name == "and") return {&combine_predicates<Combine::and_>, {1, 1, 1}};
  if (name == "or") return {&combine_predicates<Combine::or_>, {1, 1, 1}};
  if (name == "xor") return {&combine_predicates<Combine::xor_>, {1, 1, 1}};
  if (name == "not") return {&copy_predicate<true>, {1, 1}};
  if (name == "mov") return {&copy_predicate<false>, {1, 1}};
  return {};
}

}  // namespace kvevict_ptx
