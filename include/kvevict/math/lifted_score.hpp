// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/config.hpp"

namespace kvevict {

/// trunc(part * rows), as kvpress counts.
KVEVICT_HOST_DEVICE inline std::int64_t marked_rows(double part, std::int64_t rows) {
  return static_cast<std::int64_t>(part * static_cast<double>(rows));
}

/// Whether a row whose rank r is given as (rows - r) / rows is one of the first `count`.
KVEVICT_HOST_DEVICE inline bool is_among_best(float rank, std::int64_t count, std::int64_t rows) {
  // Half a step below the last of them: no rounding of the fraction reaches that.
  const double last = static_cast<double>(rows - count) + 0.5;
  return static_cast<double>(rank) * static_cast<double>(rows) > last;
}

/// A score above `largest` >= 0 that grows with the mark in (0, 1].
KVEVICT_HOST_DEVICE inline float lifted_score(float largest, float mark) {
  return static_cast<float>((static_cast<double>(largest) + 1.0) *
                            (1.0 + static_cast<double>(mark)));
}

}  // namespace kvevict
