// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda_rates.cuh"
#include "shape.hpp"

namespace bench {

/// One pass over memory. Transfers and arithmetic overlap, so it takes at least as long as the
/// slowest of its parts.
struct Pass {
  double read = 0.0;   ///< bytes
  double write = 0.0;  ///< bytes
  double copy = 0.0;   ///< bytes that are read and written
  double fp32 = 0.0;   ///< flops
  double fp64 = 0.0;   ///< flops
  double exponentials = 0.0;
};

/// What no implementation avoids: passes of which each needs the whole result of the one before.
using Work = std::vector<Pass>;

inline double bytes_of(const Work& work) {
  double bytes = 0.0;
  for (const Pass& pass : work) bytes += pass.read + pass.write + 2.0 * pass.copy;
  return bytes;
}
inline double flops_of(const Work& work) {
  double flops = 0.0;
  for (const Pass& pass : work) flops += pass.fp32 + pass.fp64;
  return flops;
}

/// The memory on which bandwidths are measured, as much as a benchmark reads and writes.
struct Traffic {
  const void* from = nullptr;
  std::int64_t read_bytes = 0;
  void* to = nullptr;
  std::int64_t write_bytes = 0;
};

/// Seconds that the work takes at least, by rates measured now.
inline double bound_of(CudaRates& rates, const Work& work, const Traffic& traffic) {
  const auto each = [&](double Pass::*part, auto&& seconds_of_one) {
    const bool any =
        std::any_of(work.begin(), work.end(), [&](const Pass& p) { return p.*part > 0.0; });
    return any ? seconds_of_one() : 0.0;
  };
  const auto written = static_cast<double>(traffic.write_bytes);
  const Pass one = {
      .read = each(&Pass::read,
                   [&] {
                     return rates.read(traffic.from, traffic.read_bytes) /
                            static_cast<double>(traffic.read_bytes);
                   }),
      .write = each(&Pass::write,
                    [&] { return rates.write(traffic.to, traffic.write_bytes) / written; }),
      .copy =
          each(&Pass::copy,
               [&] { return rates.copy(traffic.from, traffic.to, traffic.write_bytes) / written; }),
      .fp32 = each(&Pass::fp32, [&] { return rates.flops<float>(1.0); }),
      .fp64 = each(&Pass::fp64, [&] { return rates.flops<double>(1.0); }),
      .exponentials = each(&Pass::exponentials, [&] { return rates.exponentials(1.0); })};
  double seconds = 0.0;
  for (const Pass& pass : work) {
    const double memory = pass.read * one.read + pass.write * one.write + pass.copy * one.copy;
    seconds += std::max(
        {memory, pass.fp32 * one.fp32, pass.fp64 * one.fp64, pass.exponentials * one.exponentials});
  }
  return seconds;
}

}  // namespace bench
