// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace kvevict_emulation {

/// A mistake that a real device answers with undefined behaviour, a hang or a broken context. It is
/// thrown by the call that runs the work: the launch itself, or in lazy mode whatever waits for it.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// In which order the runnable threads of a block are resumed. No order finds every mistake.
enum class ThreadOrder { forward, reverse, shuffled };

/// What the emulated device says it is. The defaults are those of compute capability 8.0.
struct DeviceLimits {
  const char* name = "emulated device";
  int compute_major = 8;
  int compute_minor = 0;
  int multiprocessors = 4;
  std::size_t shared_per_block = std::size_t{48} << 10;         ///< without opting in, in bytes
  std::size_t shared_per_block_optin = std::size_t{163} << 10;  ///< with cudaFuncSetAttribute
  std::size_t global_memory = std::size_t{8} << 30;             ///< cudaMalloc fails beyond it
};

struct Settings {
  ThreadOrder thread_order = ThreadOrder::forward;
  std::uint64_t seed = 1;          ///< of the shuffled order
  bool reverse_blocks = false;     ///< the last block of a grid runs first
  bool switch_at_atomics = false;  ///< another thread may run before each atomic operation
  bool lazy_streams = false;  ///< stream work runs as late as the interface allows, not at the call
  DeviceLimits limits;
};

/// The settings of the process. They begin as the environment variable KVEVICT_EMULATION says:
/// words separated by commas out of forward, reverse, shuffled, seed=N, blocks (reverse_blocks),
/// atomics (switch_at_atomics) and lazy; an unknown word ends the process with a message.
Settings& settings();

}  // namespace kvevict_emulation
