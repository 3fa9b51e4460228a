// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/ops/group_reduction.hpp"

namespace kvevict::cpu {

/// Reduces `group` values that lie `stride` apart.
inline float reduce_values(const float* values, std::int64_t group, std::int64_t stride,
                           GroupReduction reduction, ReductionDomain domain) {
  float largest = values[0];
  for (std::int64_t g = 1; g < group; ++g) {
    const float value = values[g * stride];
    if (value > largest || std::isnan(value)) largest = value;
    if (std::isnan(largest)) return largest;
  }
  if (reduction == GroupReduction::max || std::isnan(largest)) return largest;
  const double weight = reduction == GroupReduction::mean ? 1.0 / static_cast<double>(group) : 1.0;
  double sum = 0.0;
  switch (domain) {
    case ReductionDomain::linear:
      for (std::int64_t g = 0; g < group; ++g) sum += static_cast<double>(values[g * stride]);
      return static_cast<float>(sum * weight);
    case ReductionDomain::logarithm:
      if (std::isinf(largest)) return largest;
      for (std::int64_t g = 0; g < group; ++g) {
        sum += std::exp(static_cast<double>(values[g * stride]) - static_cast<double>(largest));
      }
      return static_cast<float>(static_cast<double>(largest) + std::log(sum * weight));
    case ReductionDomain::square_root:
      for (std::int64_t g = 0; g < group; ++g) {
        const double value = static_cast<double>(values[g * stride]);
        sum += value * value;
      }
      return static_cast<float>(std::sqrt(sum * weight));
  }
  return std::numeric_limits<float>::quiet_NaN();
}

inline void reduce_group_impl(Resources& res, ScoreView<> in, std::int64_t group,
                              GroupReduction reduction, ReductionDomain domain, ScoreView<> out) {
  if (res.workspace().counting()) return;
  res.parallel_for(out.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = out.layout.rows(h);
    const float* first = in.head(h * group);
    float* result = out.head(h);
    for (std::int64_t i = 0; i < rows; ++i) {
      result[i] = reduce_values(first + i, group, rows, reduction, domain);
    }
  });
}

}  // namespace kvevict::cpu
