// SPDX-License-Identifier: Apache-2.0
#include "statistics.hpp"

#include <cxxabi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "modules.hpp"
#include "ptx_settings.hpp"

namespace kvevict_ptx {
namespace {

void print_counts() {
  const Statistics& all = statistics();
  const double millions = static_cast<double>(all.instructions) / 1e6;
  std::printf("PTX: %llu launches, %.1f M thread instructions in %.2f s, %.1f M per second\n",
              static_cast<unsigned long long>(all.launches), millions, all.seconds,
              millions / all.seconds);
}

std::string readable(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return text != nullptr ? text.get() : symbol;
}

void print_unused() {
  for (const std::string& name : registry().kernel_names()) {
    if (statistics().kernels.contains(name)) continue;
    std::printf("PTX: not run: %s\n", readable(name).c_str());
  }
}

void print() {
  if (ptx_settings().statistics) print_counts();
  if (ptx_settings().unused) print_unused();
}

}  // namespace

Statistics& statistics() {
  static Statistics all;
  return all;
}

void run_counted(Grid& grid) {
  Statistics& all = statistics();
  if (all.launches++ == 0) std::atexit(&print);
  all.kernels.insert(grid.program.name);
  const auto begin = std::chrono::steady_clock::now();
  grid.run();
  all.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  all.instructions += grid.lane_instructions();
}

}  // namespace kvevict_ptx
