// SPDX-License-Identifier: Apache-2.0
#include "statistics.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "ptx_settings.hpp"

namespace kvevict_ptx {
namespace {

void print() {
  const Statistics& all = statistics();
  const double millions = static_cast<double>(all.instructions) / 1e6;
  std::printf("PTX: %llu launches, %.1f M thread instructions in %.2f s, %.1f M per second\n",
              static_cast<unsigned long long>(all.launches), millions, all.seconds,
              millions / all.seconds);
}

}  // namespace

Statistics& statistics() {
  static Statistics all;
  return all;
}

void run_counted(Grid& grid) {
  Statistics& all = statistics();
  if (all.launches++ == 0 && ptx_settings().statistics) std::atexit(&print);
  const auto begin = std::chrono::steady_clock::now();
  grid.run();
  all.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  all.instructions += grid.lane_instructions();
}

}  // namespace kvevict_ptx
