// SPDX-License-Identifier: Apache-2.0
#pragma once

// Scalar device functions that only nvcc declares. The names are CUDA's.
#include <math.h>

#include <cmath>

#include "kernel_interface.hpp"

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, std::type_identity_t<T> value) {
  *address = value;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits != 0 ? __builtin_clz(static_cast<unsigned>(bits)) : 32; }
inline int __clzll(long long bits) {
  return bits != 0 ? __builtin_clzll(static_cast<unsigned long long>(bits)) : 64;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline unsigned __brev(unsigned bits) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) {
    reversed = (reversed << 1) | ((bits >> i) & 1u);
  }
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((std::uint64_t{a} * b) >> 32);
}

inline unsigned __float_as_uint(float value) {
  return kvevict_emulation::bit_copy<unsigned>(value);
}
inline int __float_as_int(float value) { return kvevict_emulation::bit_copy<int>(value); }
inline float __uint_as_float(unsigned bits) { return kvevict_emulation::bit_copy<float>(bits); }
inline float __int_as_float(int bits) { return kvevict_emulation::bit_copy<float>(bits); }
inline long long __double_as_longlong(double value) {
  return kvevict_emulation::bit_copy<long long>(value);
}
inline double __longlong_as_double(long long bits) {
  return kvevict_emulation::bit_copy<double>(bits);
}

// Rounded operations: a host compiler does not contract them either.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __frcp_rn(float value) { return 1.0f / value; }
inline float __fsqrt_rn(float value) { return std::sqrt(value); }
inline float __fdividef(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
inline double rsqrt(double value) { return 1.0 / std::sqrt(value); }

template <class T>
requires std::is_arithmetic_v<T>
constexpr T min(T a, T b) { return b < a ? b : a; }
template <class T>
requires std::is_arithmetic_v<T>
constexpr T max(T a, T b) { return a < b ? b : a; }
