// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace demo {

using Clock = std::chrono::steady_clock;

inline double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace demo
