// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/config.hpp"

namespace kvevict {

/// Every score of a chunk becomes their mean.
KVEVICT_HOST_DEVICE inline void replace_by_mean(float* scores, std::int64_t count) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(scores[i]);
  const auto mean = static_cast<float>(sum / static_cast<double>(count));
  for (std::int64_t i = 0; i < count; ++i) scores[i] = mean;
}

/// The larger one, or the smaller one; NaN if there is one.
KVEVICT_HOST_DEVICE inline float larger_of(float a, float b) { return !(b <= a) && a == a ? b : a; }
KVEVICT_HOST_DEVICE inline float smaller_of(float a, float b) {
  return !(b >= a) && a == a ? b : a;
}

}  // namespace kvevict
