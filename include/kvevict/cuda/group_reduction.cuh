// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/cuda/reduce.cuh"
#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/ops/group_reduction.hpp"

namespace kvevict::cuda {

namespace detail {

struct ReduceGroup {
  ScoreView<MemorySpace::device> in;
  int group;
  GroupReduction reduction;
  ReductionDomain domain;
  double weight;  ///< of a sum
  ScoreView<MemorySpace::device> out;

  __device__ void operator()(const HeadTile& tile) const {
    const std::int64_t rows = out.layout.rows(tile.head);
    const float* from = in.head(tile.head * group);
    float* to = out.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) { to[i] = reduced(from + i, rows); });
  }

  /// `values` of a group lie `step` apart.
  __device__ float reduced(const float* values, std::int64_t step) const {
    if (reduction == GroupReduction::max) return largest(values, step);
    if (domain == ReductionDomain::logarithm) return log_sum(values, step);
    double sum = 0.0;
    for (int g = 0; g < group; ++g) {
      const auto value = static_cast<double>(values[g * step]);
      sum += domain == ReductionDomain::linear ? value : value * value;
    }
    sum *= weight;
    return static_cast<float>(domain == ReductionDomain::linear ? sum : sqrt(sum));
  }

 private:
  __device__ float largest(const float* values, std::int64_t step) const {
    float result = values[0];
    for (int g = 1; g < group; ++g) result = Maximum{}(result, values[g * step]);
    return result;
  }

  /// log(weight * sum of exponentials)
  __device__ float log_sum(const float* values, std::int64_t step) const {
    const float maximum = largest(values, step);
    if (!isfinite(maximum)) return maximum;
    double sum = 0.0;
    for (int g = 0; g < group; ++g) {
      sum += exp(static_cast<double>(values[g * step]) - static_cast<double>(maximum));
    }
    return static_cast<float>(static_cast<double>(maximum) + log(sum * weight));
  }
};

}  // namespace detail

/// 4 (group + 1) bytes for each row: at the speed of memory, except for logarithms on a device
/// without double-precision units.
inline void reduce_group_impl(Resources& res, ScoreView<MemorySpace::device> in, std::int64_t group,
                              GroupReduction reduction, ReductionDomain domain,
                              ScoreView<MemorySpace::device> out) {
  if (res.workspace().counting()) return;
  const double weight = reduction == GroupReduction::mean ? 1.0 / static_cast<double>(group) : 1.0;
  for_each_score_tile(
      res, "reduce_group", out.layout,
      detail::ReduceGroup{in, static_cast<int>(group), reduction, domain, weight, out});
}

}  // namespace kvevict::cuda
