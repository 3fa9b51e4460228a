// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace kvevict_ptx {

/// What is looked for beyond what is always checked (bounds, alignment, barriers, warp operations).
struct PtxSettings {
  int capability = 0;  ///< of the device, as in 80; 0: the newest that the program has PTX for
  bool shared_races = true;  ///< and reads of shared memory that the block has not written
  bool global_races = true;
  bool early_return = false;  ///< threads may return before a barrier that others reach
  /// Instructions of the warps of a block after which it is said not to end.
  std::uint64_t most_instructions = std::uint64_t{1} << 32;
  bool statistics = false;  ///< print what was executed when the process ends
  bool unused = false;      ///< print then which kernels of the program were not
};

/// The settings of the process. They begin as the environment variable KVEVICT_PTX says: words
/// separated by commas out of sm_NN (capability), noraces, noglobalraces, earlyreturn, statistics
/// and unused; an unknown word ends the process with a message.
PtxSettings& ptx_settings();

}  // namespace kvevict_ptx
