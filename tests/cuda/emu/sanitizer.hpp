// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the sanitizers must be told, as functions that do nothing without them. The emulator itself
// is never instrumented; KVEVICT_EMULATION_ASAN or _TSAN says what its users are built with.
#include <cstddef>

#if defined(KVEVICT_EMULATION_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(KVEVICT_EMULATION_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace kvevict_emulation::sanitizer {

#if defined(KVEVICT_EMULATION_ASAN)

inline constexpr bool finds_races = false;

inline void poison(const void* memory, std::size_t bytes) {
  __asan_poison_memory_region(memory, bytes);
}
inline void unpoison(const void* memory, std::size_t bytes) {
  __asan_unpoison_memory_region(memory, bytes);
}
inline void leave_stack(void** fake_stack, const char* next_stack, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, next_stack, bytes);
}
/// Returns the stack that was left in `*stack` and `*bytes`.
inline void enter_stack(void* fake_stack, const void** stack, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, stack, bytes);
}

#else

#if defined(KVEVICT_EMULATION_TSAN)
inline constexpr bool finds_races = true;
#else
inline constexpr bool finds_races = false;
#endif

inline void poison(const void*, std::size_t) {}
inline void unpoison(const void*, std::size_t) {}
inline void leave_stack(void**, const char*, std::size_t) {}
inline void enter_stack(void*, const void**, std::size_t*) {}

#endif

#if defined(KVEVICT_EMULATION_TSAN)

/// Everything before release(anchor) happens before everything after a later acquire(anchor).
inline void release(char& anchor) { __tsan_release(&anchor); }
inline void acquire(char& anchor) { __tsan_acquire(&anchor); }

/// As whom the sanitizer sees what follows.
using Identity = void*;
inline Identity create_identity() { return __tsan_create_fiber(0); }
inline Identity current_identity() { return __tsan_get_current_fiber(); }
inline void destroy_identity(Identity identity) { __tsan_destroy_fiber(identity); }
/// Takes effect without any order between the two.
inline void assume(Identity identity) {
  __tsan_switch_to_fiber(identity, __tsan_switch_to_fiber_no_sync);
}

#else

inline void release(char&) {}
inline void acquire(char&) {}
struct Identity {};
inline Identity create_identity() { return {}; }
inline Identity current_identity() { return {}; }
inline void destroy_identity(Identity) {}
inline void assume(Identity) {}

#endif

}  // namespace kvevict_emulation::sanitizer
