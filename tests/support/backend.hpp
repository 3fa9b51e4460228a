// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which backend the tests of results run on. They are compiled twice: as they are for the CPU, and
// with KVEVICT_TEST_MIRROR for a device, see cuda/mirror.
#include <cstdint>
#include <cstdlib>

#if defined(KVEVICT_TEST_MIRROR)
#include "cuda/mirror/mirror_ops.hpp"
#else
#include "kvevict/cpu/resources.hpp"
#endif

namespace kvevict_test {

#if defined(KVEVICT_TEST_MIRROR)
using TestResources = MirrorResources;
inline constexpr bool on_cpu = false;
/// Numbers of threads whose results must be equal bit by bit.
inline constexpr int thread_counts[] = {1};
#else
using TestResources = kvevict::CpuResources;
inline constexpr bool on_cpu = true;
inline constexpr int thread_counts[] = {1, 2, 3};
#endif

/// What suits the backend: a size that emulated hardware can bear, or a tolerance.
template <class T>
constexpr T for_backend(const T& cpu, const T& device) {
  return on_cpu ? cpu : device;
}

/// Of cases that are made by the hundred, whether this one runs. KVEVICT_TEST_THINNING may say that
/// only every n-th does: sanitizers and interpreters are slow.
inline bool case_runs(std::uint64_t number) {
  static const char* const text = std::getenv("KVEVICT_TEST_THINNING");
  static const long thinning = text == nullptr ? 1 : std::strtol(text, nullptr, 10);
  return thinning <= 1 || number % static_cast<std::uint64_t>(thinning) == 1;
}

}  // namespace kvevict_test
