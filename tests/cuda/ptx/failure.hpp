// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "warp.hpp"

namespace kvevict_ptx {

/// Throws DeviceError: `what`, then the kernel, block, thread, instruction, PTX line and, if the
/// PTX says so (nvcc -lineinfo), file and line of the source.
[[noreturn]] void fail(const Warp& warp, const Instruction& instruction, int lane,
                       const std::string& what);

/// The same for a block as a whole.
[[noreturn]] void fail(const Block& block, const std::string& what);

std::string demangled(const std::string& name);
/// "(x,y,z)"
std::string thread_name(const Block& block, int thread);
/// The instruction at `at`, its PTX line and its source line.
std::string place_name(const Program& program, std::size_t at);

}  // namespace kvevict_ptx
