// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "grid.hpp"

namespace kvevict_ptx {

/// What this process has executed.
struct Statistics {
  std::uint64_t launches = 0;
  std::uint64_t instructions = 0;  ///< each counted for every thread that took part
  double seconds = 0;
  std::set<std::string> kernels;  ///< names, as the linker knows them
};
Statistics& statistics();

/// Runs the grid and adds it to the statistics, which are printed when the process ends if the
/// settings say so.
void run_counted(Grid& grid);

}  // namespace kvevict_ptx
