// SPDX-License-Identifier: Apache-2.0
#pragma once

// Atomic operations on the types for which CUDA has them. They are real, relaxed atomics, so that
// ThreadSanitizer knows them as such and derives no order from them.
#include <concepts>

#include "kernel_interface.hpp"

namespace kvevict_emulation {

template <class T, class... Candidates>
concept OneOf = (std::same_as<T, Candidates> || ...);

template <class T>
concept AtomicInteger = OneOf<T, int, unsigned, unsigned long long>;
template <class T>
concept AtomicOrdered = AtomicInteger<T> || std::same_as<T, long long>;
template <class T>
concept AtomicNumber = AtomicInteger<T> || OneOf<T, float, double>;

/// Replaces *address by change(*address) and returns what was there.
template <class T, class Change>
T read_modify_write(T* address, Change change) {
  atomic_point();
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  Bits* place = reinterpret_cast<Bits*>(address);
  Bits seen = __atomic_load_n(place, __ATOMIC_RELAXED);
  for (;;) {
    const T before = bit_copy<T>(seen);
    const Bits after = bit_copy<Bits>(change(before));
    if (__atomic_compare_exchange_n(place, &seen, after, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
      return before;
    }
  }
}

/// Keeps an argument out of template argument deduction: atomicAdd(&double_value, 1) is allowed.
template <class T>
using Plain = std::type_identity_t<T>;

}  // namespace kvevict_emulation

template <kvevict_emulation::AtomicNumber T>
T atomicAdd(T* address, kvevict_emulation::Plain<T> value) {
  // Integers wrap around; unsigned arithmetic says so without undefined behaviour.
  return kvevict_emulation::read_modify_write(address, [value](T old) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(old) + static_cast<U>(value));
    } else {
      return old + value;
    }
  });
}

template <kvevict_emulation::OneOf<int, unsigned> T>
T atomicSub(T* address, kvevict_emulation::Plain<T> value) {
  return kvevict_emulation::read_modify_write(address, [value](T old) {
    return static_cast<T>(static_cast<unsigned>(old) - static_cast<unsigned>(value));
  });
}

template <kvevict_emulation::AtomicOrdered T>
T atomicMin(T* address, kvevict_emulation::Plain<T> value) {
  return kvevict_emulation::read_modify_write(address,
                                              [value](T old) { return old < value ? old : value; });
}

template <kvevict_emulation::AtomicOrdered T>
T atomicMax(T* address, kvevict_emulation::Plain<T> value) {
  return kvevict_emulation::read_modify_write(address,
                                              [value](T old) { return old > value ? old : value; });
}

template <kvevict_emulation::AtomicInteger T>
T atomicAnd(T* address, kvevict_emulation::Plain<T> value) {
  return kvevict_emulation::read_modify_write(
      address, [value](T old) { return static_cast<T>(old & value); });
}

template <kvevict_emulation::AtomicInteger T>
T atomicOr(T* address, kvevict_emulation::Plain<T> value) {
  return kvevict_emulation::read_modify_write(
      address, [value](T old) { return static_cast<T>(old | value); });
}

template <kvevict_emulation::AtomicInteger T>
T atomicXor(T* address, kvevict_emulation::Plain<T> value) {
  return kvevict_emulation::read_modify_write(
      address, [value](T old) { return static_cast<T>(old ^ value); });
}

template <class T>
requires(kvevict_emulation::AtomicInteger<T> || std::same_as<T, float>) T
    atomicExch(T* address, kvevict_emulation::Plain<T> value) {
  return kvevict_emulation::read_modify_write(address, [value](T) { return value; });
}

template <kvevict_emulation::AtomicInteger T>
T atomicCAS(T* address, kvevict_emulation::Plain<T> compare, kvevict_emulation::Plain<T> value) {
  return kvevict_emulation::read_modify_write(
      address, [compare, value](T old) { return old == compare ? value : old; });
}

inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return kvevict_emulation::read_modify_write(
      address, [limit](unsigned old) { return old >= limit ? 0u : old + 1u; });
}

inline unsigned atomicDec(unsigned* address, unsigned limit) {
  return kvevict_emulation::read_modify_write(
      address, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1u; });
}
