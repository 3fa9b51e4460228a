// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program.hpp"

namespace kvevict_ptx {

/// Handler of a statement that was not understood: fails with Program::faults[target].
void report_fault(Warp& warp, const Instruction& instruction, LaneMask active);

/// Handler of a failed assert(): the address of its text is in local memory, at the offset.
void report_assertion(Warp& warp, const Instruction& instruction, LaneMask active);

}  // namespace kvevict_ptx
