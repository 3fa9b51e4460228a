// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/core/config.hpp"

namespace kvevict {

/// What makes a row of this length one of length one; 0 where the length is not in the range of
/// normal fp32 numbers, so that such a row is similar to none. NaN stays NaN.
KVEVICT_HOST_DEVICE inline float unit_scale(float length) {
  constexpr float least = 0x1p-126f;
  constexpr float most = 0x1.fffffep127f;
  return length < least || length > most ? 0.0f : 1.0f / length;
}

/// How many of a head's evicted rows are merged when the `fraction` of them that is most similar
/// to what is kept is to be: those at or above the (1 - fraction) quantile with linear
/// interpolation, n - ceil((1 - fraction) (n - 1)).
KVEVICT_HOST_DEVICE inline std::int64_t merged_rows(std::int64_t evicted, double fraction) {
  if (evicted == 0) return 0;
  return evicted -
         static_cast<std::int64_t>(std::ceil((1.0 - fraction) * static_cast<double>(evicted - 1)));
}

/// The weight of an evicted row of length `norm` in the kept row of length `kept_norm` that it is
/// most similar to, whose own weight is one: cosine |v| / (|v| + |v_kept| + 1e-6), 0 where the
/// cosine is not positive or below `threshold`, or a length is not finite.
KVEVICT_HOST_DEVICE inline double merge_weight(float cosine, float threshold, float norm,
                                               float kept_norm) {
  if (!(cosine >= threshold && cosine > 0.0f)) return 0.0;
  const auto own = static_cast<double>(norm);
  const double weight =
      static_cast<double>(cosine) * (own / (own + static_cast<double>(kept_norm) + 1e-6));
  return weight > 0.0 ? weight : 0.0;
}

/// The part of an evicted row that each of the `count` kept rows behind it receives, in units of
/// the row: 1 / count with probability `attention` / (`behind` / count) (1 where it is more), else
/// 0. `behind` is the attention of these rows together, `draw` uniform in [0, 1).
KVEVICT_HOST_DEVICE inline double following_share(float attention, double behind,
                                                  std::int64_t count, float draw) {
  if (count == 0) return 0.0;
  const auto rows = static_cast<double>(count);
  return static_cast<double>(draw) * behind < static_cast<double>(attention) * rows ? 1.0 / rows
                                                                                    : 0.0;
}

}  // namespace kvevict
