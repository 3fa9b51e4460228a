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
    if (!(values[i] <= largest) && !std::isnan(largest)) largest = values[i];
  }
  return largest;
}

/// out[j] = average of in[j - kernel/2 .. j + kernel/2], cut at the ends.
inline void average_neighbours(const float* in, std::int64_t n, std::int64_t kernel,
                               bool count_padding, float* out) {
  const std::int64_t reach = kernel / 2;
  const auto edge = [&](std::int64_t j) {
    const std::int64_t begin = std::max<std::int64_t>(0, j - reach);
    const std::int64_t end = std::min(n, j + reach + 1);
    float sum = 0.0f;
    for (std::int64_t i = begin; i < end; ++i) sum += in[i];
    out[j] = sum / static_cast<float>(count_padding ? kernel : end - begin);
  };
  const std::int64_t first = std::min(reach, n);
  const std::int64_t last = std::max(first, n - reach);
  for (std::int64_t j = 0; j < first; ++j) edge(j);
  // Neighbour by neighbour over all rows, which vectorises; the same sums as at the edges.
  std::fill(out + first, out + last, 0.0f);
  for (std::int64_t offset = -reach; offset <= reach; ++offset) {
    for (std::int64_t j = first; j < last; ++j) out[j] += in[j + offset];
  }
  for (std::int64_t j = first; j < last; ++j) out[j] /= static_cast<float>(kernel);
  for (std::int64_t j = last; j < n; ++j) edge(j);
}

inline void pool_rows_impl(Resources& res, const Positions<>& positions, const RowLayout<>& layout,
                           const PositionBound<>& prefix, std::int64_t kernel, Pooling pooling,
                           bool count_padding, ScoreView<> scores) {
  const std::int64_t group = layout.heads() == 0 ? 1 : scores.layout.heads() / layout.heads();
  const std::int64_t longest = scores.layout.longest();
  WorkspaceScope scope(res.workspace());
  float* copies = scope.carve<float>("pool_rows.copy", res.threads() * longest);
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int worker) {
    const std::int64_t rows = scores.layout.rows(h);
    const std::int64_t n = positions.row(h / group, layout).count_below(prefix.of(h / group), rows);
    float* out = scores.head(h);
    float* in = copies + worker * longest;
    std::copy_n(out, n, in);
    if (pooling == Pooling::max) {
      for (std::int64_t j = 0; j < n; ++j) {
        out[j] = maximum_of(in, std::max<std::int64_t>(0, j - kernel / 2),
                            std::min(n, j + kernel / 2 + 1));
      }
    } else {
      average_neighbours(in, n, kernel, count_padding, out);
    }
  });
}

}  // namespace kvevict::cpu
