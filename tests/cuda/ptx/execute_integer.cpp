// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic. It wraps around, so it is done on unsigned values of 64 or 128 bits.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

__extension__ using Wide = __int128;

template <class T>
std::uint64_t bits(T value) {
  return static_cast<std::uint64_t>(value);
}

template <class T>
struct Add {
  T operator()(T a, T b) const { return static_cast<T>(bits(a) + bits(b)); }
};
template <class T>
struct Subtract {
  T operator()(T a, T b) const { return static_cast<T>(bits(a) - bits(b)); }
};
template <class T>
struct MultiplyLow {
  T operator()(T a, T b) const { return static_cast<T>(bits(a) * bits(b)); }
};
template <class T>
struct MultiplyHigh {
  T operator()(T a, T b) const {
    constexpr int width = std::numeric_limits<std::make_unsigned_t<T>>::digits;
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b) >> width);
  }
};
template <>
struct MultiplyHigh<std::uint64_t> {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const {
    __extension__ using UnsignedWide = unsigned __int128;
    return static_cast<std::uint64_t>(static_cast<UnsignedWide>(a) * b >> 64);
  }
};
/// Twice as wide as its operands.
template <class T>
using Widened =
    std::conditional_t<sizeof(T) == 2,
                       std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;
template <class T>
struct MultiplyWide {
  Widened<T> operator()(T a, T b) const {
    return static_cast<Widened<T>>(static_cast<Widened<T>>(a) * static_cast<Widened<T>>(b));
  }
};
/// The low 24 bits of the operands.
template <class T>
struct Multiply24 {
  T operator()(T a, T b) const { return MultiplyLow<T>{}(narrow(a), narrow(b)); }
  static T narrow(T a) { return static_cast<T>(static_cast<T>(bits(a) << 8) >> 8); }
};
template <class T, class Product, class Sum>
struct MultiplyAdd {
  Sum operator()(T a, T b, Sum c) const { return Add<Sum>{}(Product{}(a, b), c); }
};
// A device divides by zero without a fault; the result is undefined. All bits set is what it gives.
template <class T>
struct Divide {
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(0 - bits(a));
    }
    return static_cast<T>(a / b);
  }
};
template <class T>
struct Remainder {
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};
template <class T>
struct Minimum {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct Maximum {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct Negate {
  T operator()(T a) const { return static_cast<T>(0 - bits(a)); }
};
template <class T>
struct Absolute {
  T operator()(T a) const { return a < 0 ? Negate<T>{}(a) : a; }
};
template <class T>
struct SumOfDifference {
  T operator()(T a, T b, T c) const {
    return Add<T>{}(c, a < b ? Subtract<T>{}(b, a) : Subtract<T>{}(a, b));
  }
};
struct AddSaturating {
  std::int32_t operator()(std::int32_t a, std::int32_t b) const {
    return clamp(std::int64_t{a} + b);
  }
  static std::int32_t clamp(std::int64_t value) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(
        value, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
  }
};
struct SubtractSaturating {
  std::int32_t operator()(std::int32_t a, std::int32_t b) const {
    return AddSaturating::clamp(std::int64_t{a} - b);
  }
};

template <class T, class Operation>
Selection unary_of() {
  return {&unary<T, T, Operation>, {sizeof(T), sizeof(T)}};
}
template <class T, class Operation>
Selection binary_of() {
  return {&binary<T, T, T, Operation>, {sizeof(T), sizeof(T), sizeof(T)}};
}

template <class T>
Selection multiply(const Opcode& opcode) {
  if (opcode.has("hi")) return binary_of<T, MultiplyHigh<T>>();
  if (!opcode.has("wide")) return binary_of<T, MultiplyLow<T>>();
  if constexpr (sizeof(T) == 8) return {};
  return {&binary<Widened<T>, T, T, MultiplyWide<T>>, {2 * sizeof(T), sizeof(T), sizeof(T)}};
}

template <class T, class Product, class Sum>
Selection multiply_add_of() {
  return {&ternary<Sum, T, T, Sum, MultiplyAdd<T, Product, Sum>>,
          {sizeof(Sum), sizeof(T), sizeof(T), sizeof(Sum)}};
}

template <class T>
Selection multiply_add(const Opcode& opcode) {
  if (opcode.has("hi")) return multiply_add_of<T, MultiplyHigh<T>, T>();
  if (!opcode.has("wide")) return multiply_add_of<T, MultiplyLow<T>, T>();
  if constexpr (sizeof(T) == 8) return {};
  return multiply_add_of<T, MultiplyWide<T>, Widened<T>>();
}

}  // namespace

Selection select_integer(const Opcode& opcode, Modifiers& with) {
  return with_integer(opcode.type(), [&](auto value) -> Selection {
    using T = decltype(value);
    const std::string_view name = opcode.name;
    if (with.saturate) {
      if (name == "add") return binary_of<std::int32_t, AddSaturating>();
      if (name == "sub") return binary_of<std::int32_t, SubtractSaturating>();
      return {};
    }
    if (name == "add") return binary_of<T, Add<T>>();
    if (name == "sub") return binary_of<T, Subtract<T>>();
    if (name == "mul") return multiply<T>(opcode);
    if (name == "mad") return multiply_add<T>(opcode);
    if (name == "mul24" && opcode.has("lo")) return binary_of<T, Multiply24<T>>();
    if (name == "mad24" && opcode.has("lo")) return multiply_add_of<T, Multiply24<T>, T>();
    if (name == "div") return binary_of<T, Divide<T>>();
    if (name == "rem") return binary_of<T, Remainder<T>>();
    if (name == "min") return binary_of<T, Minimum<T>>();
    if (name == "max") return binary_of<T, Maximum<T>>();
    if (name == "neg") return unary_of<T, Negate<T>>();
    if (name == "abs") return unary_of<T, Absolute<T>>();
    if (name == "sad") {
      return {&ternary<T, T, T, T, SumOfDifference<T>>,
              {sizeof(T), sizeof(T), sizeof(T), sizeof(T)}};
    }
    return {};
  });
}

}  // namespace kvevict_ptx
