// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Functions that run in kernels as well as on the host carry this mark; a host compiler sees
// nothing.
#if defined(__CUDACC__)
#define KVEVICT_HOST_DEVICE __host__ __device__
#else
#define KVEVICT_HOST_DEVICE
#endif

// The result refers to the object: compilers that know the attribute warn of a temporary.
#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::lifetimebound)
#define KVEVICT_LIFETIMEBOUND [[clang::lifetimebound]]
#endif
#endif
#if !defined(KVEVICT_LIFETIMEBOUND)
#define KVEVICT_LIFETIMEBOUND
#endif

namespace kvevict {

/// Alignment in bytes of every buffer that the library carves for itself: a cache line pair on
/// CPUs, a full memory transaction on GPUs.
inline constexpr std::int64_t workspace_alignment = 256;

namespace detail {

/// `std::bit_cast` that kernels may call without a compiler flag.
template <class To, class From>
KVEVICT_HOST_DEVICE constexpr To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

}  // namespace detail

}  // namespace kvevict
