// SPDX-License-Identifier: Apache-2.0
// cvt: conversions between numbers. A register may be wider than the number in it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "float_math.hpp"
#include "half.hpp"
#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

enum Kind : std::uint8_t { plain, to_integral, relu };

template <class T>
inline constexpr bool is_small = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

template <class To, class From>
To integer_to_integer(From value, const Modifiers& with) {
  if (!with.saturate) return static_cast<To>(value);
  using Limits = std::numeric_limits<To>;
  if (std::cmp_less(value, Limits::min())) return Limits::min();
  if (std::cmp_greater(value, Limits::max())) return Limits::max();
  return static_cast<To>(value);
}

/// Out of range: the nearest number there is. NaN: 0 where source and destination have at most 32
/// bits, otherwise the highest bit alone.
template <class To, class From>
To float_to_integer(From value, const Modifiers& with) {
  using Limits = std::numeric_limits<To>;
  if (value != value) {
    if (sizeof(From) <= 4 && sizeof(To) <= 4) return 0;
    return static_cast<To>(std::uint64_t{1} << (8 * sizeof(To) - 1));
  }
  const From integral = rounded_to_integer(with.flush ? flushed(value) : value, with.rounding);
  // 2^bits of the magnitude is exact in every type, unlike the largest integer.
  const From beyond = std::ldexp(From{1}, Limits::digits);
  if (integral >= beyond) return Limits::max();
  if (integral < (std::is_signed_v<To> ? -beyond : From{0})) return Limits::min();
  return static_cast<To>(integral);
}

template <class To, class From>
To to_float(From value, const Modifiers& with) {
  To result{};
  if constexpr (std::is_same_v<To, From>) {
    result = with.kind == to_integral ? rounded_to_integer(value, with.rounding) : value;
  } else if (with.rounding == Rounding::nearest) {
    result = static_cast<To>(value);
  } else {
    result = rounded_to<To>(static_cast<long double>(value), with.rounding);
  }
  if (with.flush) result = flushed(result);
  if (with.saturate) result = saturated(result);
  return std::is_floating_point_v<From> ? canonical(result) : result;
}

template <class To, class From>
To converted(From value, const Modifiers& with) {
  if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, Half>) {
    const double input = value_of(value);
    return to_small<Half>(
        with.kind == to_integral ? rounded_to_integer(input, with.rounding) : input, with.rounding);
  } else if constexpr (is_small<From>) {
    return converted<To>(static_cast<float>(value_of(value)), with);
  } else if constexpr (is_small<To>) {
    double input = static_cast<double>(value);
    if (with.saturate) input = saturated(input);
    if (with.kind == relu && input < 0) input = 0;
    return to_small<To>(input, with.rounding);
  } else if constexpr (std::is_floating_point_v<To>) {
    if constexpr (std::is_floating_point_v<From>) {
      return to_float<To>(with.flush ? flushed(value) : value, with);
    } else {
      return to_float<To>(value, with);
    }
  } else if constexpr (std::is_floating_point_v<From>) {
    return float_to_integer<To>(value, with);
  } else {
    return integer_to_integer<To>(value, with);
  }
}

/// Registers that are just as wide as the numbers: the loop that can be vectorised.
template <class To, class From>
void convert_same(Warp& warp, const Instruction& instruction, LaneMask active) {
  const Modifiers with = instruction.with;
  const From* from = warp.lanes<From>(instruction.slots[1]);
  LaneValues<To> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = converted<To>(from[i], with);
  store(warp, instruction.slots[0], values, active);
}

template <class To, class From>
void convert_wider(Warp& warp, const Instruction& instruction, LaneMask active) {
  const std::size_t from_bytes = instruction.bytes;
  const std::size_t to_bytes = instruction.register_bytes;
  const auto* from = warp.lanes<std::byte>(instruction.slots[1]);
  auto* to = warp.lanes<std::byte>(instruction.slots[0]);
  for_each_lane(active, [&](int lane) {
    From value;
    std::memcpy(&value, from + static_cast<std::size_t>(lane) * from_bytes, sizeof value);
    const To result = converted<To>(value, instruction.with);
    std::uint64_t bits = 0;
    if constexpr (std::is_integral_v<To>) {
      bits = static_cast<std::uint64_t>(result);  // extends the sign
    } else {
      std::memcpy(&bits, &result, sizeof result);
    }
    std::memcpy(to + static_cast<std::size_t>(lane) * to_bytes, &bits, to_bytes);
  });
}

template <class F>
Handler with_type(Type type, F f) {
  switch (type) {
    case Type::b8:
    case Type::u8:
      return f(std::uint8_t{});
    case Type::s8:
      return f(std::int8_t{});
    case Type::u16:
    case Type::b16:
      return f(std::uint16_t{});
    case Type::s16:
      return f(std::int16_t{});
    case Type::u32:
    case Type::b32:
      return f(std::uint32_t{});
    case Type::s32:
      return f(std::int32_t{});
    case Type::u64:
    case Type::b64:
      return f(std::uint64_t{});
    case Type::s64:
      return f(std::int64_t{});
    case Type::f16:
      return f(Half{});
    case Type::bf16:
      return f(Bfloat16{});
    case Type::f32:
      return f(float{});
    case Type::f64:
      return f(double{});
    default:
      return nullptr;
  }
}

/// cvt to a pair of 16-bit numbers: the first source becomes the upper half.
template <class Format>
void convert_pair(Warp& warp, const Instruction& instruction, LaneMask active) {
  const float* upper = warp.lanes<float>(instruction.slots[1]);
  const float* lower = warp.lanes<float>(instruction.slots[2]);
  auto* to = warp.lanes<std::uint32_t>(instruction.slots[0]);
  for_each_lane(active, [&](int lane) {
    const std::uint32_t high = converted<Format>(upper[lane], instruction.with).bits;
    to[lane] = high << 16 | converted<Format>(lower[lane], instruction.with).bits;
  });
}

std::uint8_t kind_of(const Opcode& opcode) {
  for (const std::string_view integral : {"rni", "rzi", "rmi", "rpi"}) {
    if (opcode.has(integral)) return to_integral;
  }
  return opcode.has("relu") ? relu : plain;
}

}  // namespace

Handler select_convert(const Opcode& opcode, int to_bytes, int from_bytes, Modifiers& with) {
  const Type to = opcode.type(0);
  const Type from = opcode.type(1);
  if (opcode.types.size() != 2 || opcode.has("rna") || opcode.has("satfinite")) return nullptr;
  if (to_bytes < size_of(to) || from_bytes < size_of(from)) return nullptr;
  with.kind = kind_of(opcode);
  const bool same = to_bytes == size_of(to) && from_bytes == size_of(from);
  return with_type(to, [&](auto result) {
    return with_type(from, [&](auto source) -> Handler {
      using To = decltype(result);
      using From = decltype(source);
      return same ? &convert_same<To, From> : &convert_wider<To, From>;
    });
  });
}

Selection select_convert_pair(const Opcode& opcode, Modifiers& with) {
  if (opcode.name != "cvt" || opcode.type(1) != Type::f32 || opcode.has("satfinite")) return {};
  with.kind = kind_of(opcode);
  if (opcode.type(0) == Type::f16x2) return {&convert_pair<Half>, {4, 4, 4}};
  if (opcode.type(0) == Type::bf16x2) return {&convert_pair<Bfloat16>, {4, 4, 4}};
  return {};
}

}  // namespace kvevict_ptx
