// SPDX-License-Identifier: Apache-2.0
// The fast functions of a device. It promises errors of a few units in the last place; here they
// are computed in double precision, so that what depends on the device's exact bits shows on the
// device.
#include <cmath>

#include "float_math.hpp"
#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

struct Reciprocal {
  double operator()(double a) const { return 1.0 / a; }
};
struct ReciprocalRoot {
  double operator()(double a) const { return 1.0 / std::sqrt(a); }
};
struct SquareRoot {
  double operator()(double a) const { return std::sqrt(a); }
};
struct PowerOfTwo {
  double operator()(double a) const { return std::exp2(a); }
};
struct LogarithmOfTwo {
  double operator()(double a) const { return std::log2(a); }
};
struct Sine {
  double operator()(double a) const { return std::sin(a); }
};
struct Cosine {
  double operator()(double a) const { return std::cos(a); }
};
struct HyperbolicTangent {
  double operator()(double a) const { return std::tanh(a); }
};

float finished(double value, const Modifiers& with) {
  const float result = canonical(static_cast<float>(value));
  return with.flush ? flushed(result) : result;
}

// Only active lanes: these functions are slow.
template <class Operation>
void one_operand(Warp& warp, const Instruction& instruction, LaneMask active) {
  const float* a = warp.lanes<float>(instruction.slots[1]);
  float* to = warp.lanes<float>(instruction.slots[0]);
  const Modifiers with = instruction.with;
  for_each_lane(active, [&](int lane) {
    to[lane] = finished(Operation{}(with.flush ? flushed(a[lane]) : a[lane]), with);
  });
}

void quotient(Warp& warp, const Instruction& instruction, LaneMask active) {
  const float* a = warp.lanes<float>(instruction.slots[1]);
  const float* b = warp.lanes<float>(instruction.slots[2]);
  float* to = warp.lanes<float>(instruction.slots[0]);
  const Modifiers with = instruction.with;
  for_each_lane(active, [&](int lane) {
    const double dividend = with.flush ? flushed(a[lane]) : a[lane];
    const double divisor = with.flush ? flushed(b[lane]) : b[lane];
    to[lane] = finished(dividend / divisor, with);
  });
}

/// The gross approximations of double precision leave the lower half of the result zero.
template <class Operation>
void upper_half(Warp& warp, const Instruction& instruction, LaneMask active) {
  const double* a = warp.lanes<double>(instruction.slots[1]);
  double* to = warp.lanes<double>(instruction.slots[0]);
  for_each_lane(active, [&](int lane) {
    const double value = Operation{}(a[lane]);
    const auto bits = std::bit_cast<std::uint64_t>(value);
    to[lane] = std::bit_cast<double>(bits & 0xffffffff00000000u);
  });
}

void reciprocal_root(Warp& warp, const Instruction& instruction, LaneMask active) {
  const double* a = warp.lanes<double>(instruction.slots[1]);
  double* to = warp.lanes<double>(instruction.slots[0]);
  for_each_lane(active, [&](int lane) { to[lane] = ReciprocalRoot{}(a[lane]); });
}

Handler select_single(std::string_view name) {
  if (name == "rcp") return &one_operand<Reciprocal>;
  if (name == "rsqrt") return &one_operand<ReciprocalRoot>;
  if (name == "sqrt") return &one_operand<SquareRoot>;
  if (name == "ex2") return &one_operand<PowerOfTwo>;
  if (name == "lg2") return &one_operand<LogarithmOfTwo>;
  if (name == "sin") return &one_operand<Sine>;
  if (name == "cos") return &one_operand<Cosine>;
  if (name == "tanh") return &one_operand<HyperbolicTangent>;
  return nullptr;
}

}  // namespace

Selection select_approximate(const Opcode& opcode, Modifiers& with) {
  const std::string_view name = opcode.name;
  if (!opcode.has("approx") && !opcode.has("full")) return {};
  if (opcode.type() == Type::f64) {
    if (name == "rsqrt" && !with.flush) return {&reciprocal_root, {8, 8}};
    if (name == "rsqrt") return {&upper_half<ReciprocalRoot>, {8, 8}};
    if (name == "rcp" && with.flush) return {&upper_half<Reciprocal>, {8, 8}};
    return {};
  }
  if (opcode.type() != Type::f32) return {};
  if (name == "div") return {&quotient, {4, 4, 4}};
  return {select_single(name), {4, 4}};
}

}  // namespace kvevict_ptx
