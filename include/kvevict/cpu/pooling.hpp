// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/ops/pooling.hpp"

namespace kvevict::cpu {

/// Largest of [begin, end), NaN if there is one.
inline float maximum_of(const float* values, std::int64_t begin, std::int64_t end) {
  float largest = values[begin];
  for (std::int64_t i = begin + 1; i < end; ++i) {
    largest = values[i] <= largest ? largest : values[i];
    if (std::isnan(largest)) break;
  }
  return largest;
}

inline void pool_rows_impl(Resources& res, const Positions<>& positions, const RowLayout<>& layout,
                           const PositionBound<>& prefix, std::int64_t kernel, Pooling pooling,
                           bool count_padding, ScoreView<> scores) {
  const std::int64_t group = layout.heads() == 0 ? 1 : scores.layout.heads() / layout.heads();
  const std::int64_t longest = scores.layout.longest();
  WorkspaceScope scope(res.workspace());
  float* copies = scope.carve<float>("pool_rows.copy", res.threads() * longest);
  if (res.workspace().counting()) return;
  const std::int64_t reach = kernel / 2;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int worker) {
    const std::int64_t rows = scores.layout.rows(h);
    const std::int64_t n = positions.row(h / group, layout).count_below(prefix.of(h / group), rows);
    float* out = scores.head(h);
    float* in = copies + worker * longest;
    std::copy_n(out, n, in);
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t begin = std::max<std::int64_t>(0, j - reach);
      const std::int64_t end = std::min(n, j + reach + 1);
      if (pooling == Pooling::max) {
        out[j] = maximum_of(in, begin, end);
        continue;
      }
      float sum = 0.0f;
      for (std::int64_t i = begin; i < end; ++i) sum += in[i];
      out[j] = sum / static_cast<float>(count_padding ? kernel : end - begin);
    }
  });
}

}  // namespace kvevict::cpu
