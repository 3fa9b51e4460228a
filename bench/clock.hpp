// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <ctime>

namespace bench {

/// Seconds, for differences. With one thread the processor time of the process, which other
/// programs on the machine do not lengthen by taking turns; with several threads the time on the
/// wall, which waiting for each other is part of.
inline double now(int threads) {
  if (threads == 1) {
    std::timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

}  // namespace bench
