// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/ops/group_reduction.hpp"

namespace kvevict::cpu {

/// NaN if there is one among the values of a group, which lie `rows` apart, else the largest.
inline float largest_of_group(const float* values, std::int64_t group, std::int64_t rows) {
  float largest = values[0];
  for (std::int64_t g = 1; g < group; ++g) {
    const float value = values[g * rows];
    largest = !(value <= largest) && !std::isnan(largest) ? value : largest;
  }
  return largest;
}

/// log(weight * sum of exponentials).
inline float log_sum_of_group(const float* values, std::int64_t group, std::int64_t rows,
                              double weight) {
  const float largest = largest_of_group(values, group, rows);
  if (!std::isfinite(largest)) return largest;
  double sum = 0.0;
  for (std::int64_t g = 0; g < group; ++g) {
    sum += std::exp(static_cast<double>(values[g * rows]) - static_cast<double>(largest));
  }
  return static_cast<float>(static_cast<double>(largest) + std::log(sum * weight));
}

/// One head: in [group][rows] to out [rows].
inline void reduce_head(const float* in, std::int64_t group, std::int64_t rows,
                        GroupReduction reduction, ReductionDomain domain, float* out) {
  const double weight = reduction == GroupReduction::mean ? 1.0 / static_cast<double>(group) : 1.0;
  if (reduction == GroupReduction::max) {
    for (std::int64_t i = 0; i < rows; ++i) out[i] = largest_of_group(in + i, group, rows);
  } else if (domain == ReductionDomain::logarithm) {
    for (std::int64_t i = 0; i < rows; ++i) out[i] = log_sum_of_group(in + i, group, rows, weight);
  } else if (domain == ReductionDomain::linear) {
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0.0;
      for (std::int64_t g = 0; g < group; ++g) sum += static_cast<double>(in[g * rows + i]);
      out[i] = static_cast<float>(sum * weight);
    }
  } else {
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0.0;
      for (std::int64_t g = 0; g < group; ++g) {
        const double value = static_cast<double>(in[g * rows + i]);
        sum += value * value;
      }
      out[i] = static_cast<float>(std::sqrt(sum * weight));
    }
  }
}

inline void reduce_group_impl(Resources& res, ScoreView<> in, std::int64_t group,
                              GroupReduction reduction, ReductionDomain domain, ScoreView<> out) {
  if (res.workspace().counting()) return;
  res.parallel_for(out.layout.heads(), [&](std::int64_t h, int) {
    reduce_head(in.head(h * group), group, out.layout.rows(h), reduction, domain, out.head(h));
  });
}

}  // namespace kvevict::cpu
