// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

// x86-64 has a switch of 15 instructions; elsewhere ucontext does it, about ten times slower.
#if !defined(__x86_64__) && !defined(KVEVICT_EMULATION_UCONTEXT)
#define KVEVICT_EMULATION_UCONTEXT
#endif
#if defined(KVEVICT_EMULATION_UCONTEXT)
#include <ucontext.h>
#endif

namespace kvevict_emulation {

/// A flow of control that is not running: where it goes on, and with which registers.
class Context {
 public:
  /// The next switch to this context calls `entry` on the given stack. `entry` must not return.
  void prepare(char* stack, std::size_t bytes, void (*entry)());

  /// Suspends the caller in `*this` and resumes `next`.
  void switch_to(Context& next);

 private:
#if defined(KVEVICT_EMULATION_UCONTEXT)
  ucontext_t state_;
#else
  void* stack_pointer_ = nullptr;
#endif
};

}  // namespace kvevict_emulation
