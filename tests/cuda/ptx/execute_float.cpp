// SPDX-License-Identifier: Apache-2.0
// Floating-point arithmetic that rounds as IEEE 754 says. Compiled with -ffp-contract=off.
#include <cfenv>
#include <cmath>
#include <type_traits>

#include "float_math.hpp"
#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

template <class T>
struct Add {
  T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct Subtract {
  T operator()(T a, T b) const { return a - b; }
};
template <class T>
struct Multiply {
  T operator()(T a, T b) const { return a * b; }
};
template <class T>
struct Divide {
  T operator()(T a, T b) const { return a / b; }
};
template <class T>
struct Reciprocal {
  T operator()(T a) const { return T{1} / a; }
};
template <class T>
struct SquareRoot {
  T operator()(T a) const { return std::sqrt(a); }
};
template <class T>
struct FusedMultiplyAdd {
  T operator()(T a, T b, T c) const { return std::fma(a, b, c); }
};

// Sign manipulations and minimum and maximum do not round: no flushing of NaN to the canonical one.
template <class T>
struct Negate {
  T operator()(T a) const { return -a; }
};
template <class T>
struct Absolute {
  T operator()(T a) const { return std::fabs(a); }
};
template <class T>
struct CopySign {
  T operator()(T sign, T magnitude) const { return std::copysign(magnitude, sign); }
};
/// A NaN yields the other operand, and -0 is less than +0.
template <class T, bool is_maximum>
struct Extreme {
  T operator()(T a, T b) const {
    if (a != a) return canonical(b);
    if (b != b) return a;
    const bool first = a == b ? std::signbit(a) : a < b;
    return first == is_maximum ? b : a;
  }
};
/// min.NaN: a NaN yields NaN.
template <class T, bool is_maximum>
struct ExtremeNan {
  T operator()(T a, T b) const {
    return a != a || b != b ? canonical(a + b) : Extreme<T, is_maximum>{}(a, b);
  }
};

int fenv_mode(Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest:
      return FE_TONEAREST;
    case Rounding::zero:
      return FE_TOWARDZERO;
    case Rounding::down:
      return FE_DOWNWARD;
    case Rounding::up:
      return FE_UPWARD;
  }
  return FE_TONEAREST;
}

template <class T>
T finished(T value, const Modifiers& with) {
  if (with.flush) value = flushed(value);
  return with.saturate ? saturated(value) : value;
}

/// Not inlined, so that the compiler cannot move arithmetic past a change of the rounding mode.
template <class T, int operands, class Operation>
[[gnu::noinline]] void compute(const LaneValues<T>* in, LaneValues<T>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if constexpr (operands == 1) out[i] = Operation{}(in[0][i]);
    if constexpr (operands == 2) out[i] = Operation{}(in[0][i], in[1][i]);
    if constexpr (operands == 3) out[i] = Operation{}(in[0][i], in[1][i], in[2][i]);
  }
}

template <class T, int operands, class Operation>
void arithmetic(Warp& warp, const Instruction& instruction, LaneMask active) {
  const Modifiers with = instruction.with;
  LaneValues<T> in[operands];
  for (std::size_t k = 0; k < operands; ++k) {
    std::memcpy(in[k].data(), warp.lanes<T>(instruction.slots[k + 1]), sizeof in[k]);
    if (!with.flush) continue;
    for (T& value : in[k]) value = flushed(value);
  }
  LaneValues<T> values;
  if (with.rounding != Rounding::nearest) std::fesetround(fenv_mode(with.rounding));
  compute<T, operands, Operation>(in, values);
  if (with.rounding != Rounding::nearest) std::fesetround(FE_TONEAREST);
  for (T& value : values) value = canonical(value);
  if (with.flush || with.saturate) {
    for (T& value : values) value = finished(value, with);
  }
  store(warp, instruction.slots[0], values, active);
}

template <class T, int operands, class Operation>
Selection arithmetic_of() {
  Selection selection{&arithmetic<T, operands, Operation>, {}};
  for (std::size_t k = 0; k <= operands; ++k) selection.widths[k] = sizeof(T);
  return selection;
}
template <class T, class Operation>
Selection exact_unary() {
  return {&unary<T, T, Operation>, {sizeof(T), sizeof(T)}};
}
template <class T, class Operation>
Selection exact_binary() {
  return {&binary<T, T, T, Operation>, {sizeof(T), sizeof(T), sizeof(T)}};
}

template <class T>
Selection select_for(const Opcode& opcode) {
  const std::string_view name = opcode.name;
  if (name == "add") return arithmetic_of<T, 2, Add<T>>();
  if (name == "sub") return arithmetic_of<T, 2, Subtract<T>>();
  if (name == "mul") return arithmetic_of<T, 2, Multiply<T>>();
  if (name == "fma" || name == "mad") return arithmetic_of<T, 3, FusedMultiplyAdd<T>>();
  if (name == "div") return arithmetic_of<T, 2, Divide<T>>();
  if (name == "rcp") return arithmetic_of<T, 1, Reciprocal<T>>();
  if (name == "sqrt") return arithmetic_of<T, 1, SquareRoot<T>>();
  if (name == "copysign") return exact_binary<T, CopySign<T>>();
  if (opcode.has("ftz")) {
    if (name == "abs") return arithmetic_of<T, 1, Absolute<T>>();
    if (name == "neg") return arithmetic_of<T, 1, Negate<T>>();
    if (name == "min") return arithmetic_of<T, 2, Extreme<T, false>>();
    if (name == "max") return arithmetic_of<T, 2, Extreme<T, true>>();
    return {};
  }
  if (name == "abs") return exact_unary<T, Absolute<T>>();
  if (name == "neg") return exact_unary<T, Negate<T>>();
  if (name == "min") {
    return opcode.has("NaN") ? exact_binary<T, ExtremeNan<T, false>>()
                             : exact_binary<T, Extreme<T, false>>();
  }
  if (name == "max") {
    return opcode.has("NaN") ? exact_binary<T, ExtremeNan<T, true>>()
                             : exact_binary<T, Extreme<T, true>>();
  }
  return {};
}

}  // namespace

Selection select_float(const Opcode& opcode, Modifiers&) {
  if (opcode.has("approx") || opcode.has("full")) return {};
  if (opcode.has("xorsign") || opcode.has("abs")) return {};
  if (opcode.has("NaN") && opcode.has("ftz")) return {};
  if (opcode.type() == Type::f32) return select_for<float>(opcode);
  if (opcode.type() == Type::f64) return select_for<double>(opcode);
  return {};
}

}  // namespace kvevict_ptx
