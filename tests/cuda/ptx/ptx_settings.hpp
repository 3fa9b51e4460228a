// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kvevict_ptx {

/// What is looked for beyond what is always checked (bounds, alignment, barriers, warp operations).
struct PtxSettings {
  bool shared_races = true;  ///< and reads of shared memory that the block has not written
  bool global_races = true;
  bool early_return = false;  ///< threads may return before a barrier that others reach
  bool statistics = false;    ///< print what was executed when the process ends
};

/// The settings of the process. They begin as the environment variable KVEVICT_PTX says: words
/// separated by commas out of noraces, noglobalraces, earlyreturn and statistics; an unknown word
/// ends the process with a message.
PtxSettings& ptx_settings();

}  // namespace kvevict_ptx
