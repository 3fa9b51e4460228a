// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "context.hpp"
#include "sanitizer.hpp"

namespace kvevict_emulation {

/// A stack with what runs on it. At any time one fiber of an operating-system thread is running.
class Fiber {
 public:
  /// The caller's own flow of control, on the stack it has.
  Fiber() = default;

  /// A stack of its own, on which the first switch calls `entry`.
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Suspends this, the running fiber, and resumes `next`.
  void switch_to(Fiber& next);

  /// The first thing that `entry` does. `host` is the fiber without a stack of its own.
  static void entered(Fiber& host);

  /// Forgets what the fiber was doing: the next switch begins at `entry` again.
  void restart();

  sanitizer::Identity identity{};

 private:
  void (*entry_)() = nullptr;
  char* stack_ = nullptr;
  std::size_t bytes_ = 0;
  void* fake_stack_ = nullptr;
  Context context_;
};

}  // namespace kvevict_emulation
