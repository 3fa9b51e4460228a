// SPDX-License-Identifier: Apache-2.0
#include "self_test_rounding.hpp"

#include <cfenv>
#include <cmath>
#include <cstdint>

namespace ptx_test {
namespace {

class Mode {
 public:
  explicit Mode(Round mode) {
    std::fesetround(mode == Round::zero   ? FE_TOWARDZERO
                    : mode == Round::down ? FE_DOWNWARD
                    : mode == Round::up   ? FE_UPWARD
                                          : FE_TONEAREST);
  }
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;
  ~Mode() { std::fesetround(FE_TONEAREST); }
};

}  // namespace

// The volatile variables keep the arithmetic between the changes of the mode.

template <class T>
T rounded_sum(T a, T b, Round mode) {
  const Mode set(mode);
  volatile T x = a;
  volatile T result = x + b;
  return result;
}

template <class T>
T rounded_product(T a, T b, Round mode) {
  const Mode set(mode);
  volatile T x = a;
  volatile T result = x * b;
  return result;
}

template <class T>
T rounded_quotient(T a, T b, Round mode) {
  const Mode set(mode);
  volatile T x = a;
  volatile T result = x / b;
  return result;
}

template <class T>
T rounded_root(T a, Round mode) {
  const Mode set(mode);
  volatile T x = a;
  volatile T result = std::sqrt(x);
  return result;
}

template <class T>
T rounded_fma(T a, T b, T c, Round mode) {
  const Mode set(mode);
  volatile T x = a;
  volatile T result = std::fma(x, b, c);
  return result;
}

template <class To, class From>
To rounded_conversion(From a, Round mode) {
  const Mode set(mode);
  volatile From x = a;
  volatile To result = static_cast<To>(x);
  return result;
}

template float rounded_sum(float, float, Round);
template double rounded_sum(double, double, Round);
template float rounded_product(float, float, Round);
template double rounded_product(double, double, Round);
template float rounded_quotient(float, float, Round);
template double rounded_quotient(double, double, Round);
template float rounded_root(float, Round);
template double rounded_root(double, Round);
template float rounded_fma(float, float, float, Round);
template double rounded_fma(double, double, double, Round);
template float rounded_conversion(double, Round);
template float rounded_conversion(int, Round);
template float rounded_conversion(std::int64_t, Round);
template double rounded_conversion(std::int64_t, Round);

}  // namespace ptx_test
