// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/softmax.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/lag_scores.hpp"

namespace kvevict::cpu {

/// What normalises each channel of a partition, and one row as floats and in double.
struct LagScratch {
  double* lowest;   ///< [dim]
  double* inverse;  ///< [dim] 1 / (largest - lowest), negative for a constant channel
  double* scaled;   ///< [dim]
  float* row;       ///< [dim]
};

template <class T>
void measure_channels(const HeadView<T>& head, std::int64_t first, std::int64_t lag,
                      const LagScratch& scratch) {
  const std::int64_t dim = head.dim;
  double* lowest = scratch.lowest;
  double* largest = scratch.inverse;
  for (std::int64_t i = first; i < first + lag; ++i) {
    load_row(head, i, scratch.row);
    for (std::int64_t c = 0; c < dim; ++c) {
      const auto x = static_cast<double>(scratch.row[c]);
      // A NaN stays once it is there.
      if (i == first || (!(x >= lowest[c]) && !std::isnan(lowest[c]))) lowest[c] = x;
      if (i == first || (!(x <= largest[c]) && !std::isnan(largest[c]))) largest[c] = x;
    }
  }
  for (std::int64_t c = 0; c < dim; ++c) {
    const double range = largest[c] - lowest[c];
    scratch.inverse[c] = range == 0.0 ? -1.0 : 1.0 / range;
  }
}

/// Standard deviation over the channels of the row in `scratch.row`.
inline float deviation_of_row(std::int64_t dim, const LagScratch& scratch) {
  double sum = 0.0;
  std::int64_t count = 0;
  for (std::int64_t c = 0; c < dim; ++c) {
    if (scratch.inverse[c] < 0.0) continue;
    const double u = (static_cast<double>(scratch.row[c]) - scratch.lowest[c]) * scratch.inverse[c];
    scratch.scaled[count++] = u;
    sum += u;
  }
  if (count < 2) return 0.0f;
  const double mean = sum / static_cast<double>(count);
  double squares = 0.0;
  for (std::int64_t c = 0; c < count; ++c) {
    squares += (scratch.scaled[c] - mean) * (scratch.scaled[c] - mean);
  }
  const double deviation = std::sqrt(squares / static_cast<double>(count - 1));
  constexpr double most = std::numeric_limits<float>::max();
  return static_cast<float>(deviation > most ? most : deviation);
}

template <class T>
void lag_deviation_impl(Resources& res, const RowsView<T>& rows, const LagPartitions& partitions,
                        ScoreView<> out) {
  const std::int64_t dim = rows.dim();
  WorkspaceScope scope(res.workspace());
  double* doubles = scope.carve<double>("lag_deviation.channels", res.threads() * 3 * dim);
  float* floats = scope.carve<float>("lag_deviation.rows", res.threads() * dim);
  if (res.workspace().counting()) return;
  res.parallel_for(rows.heads(), [&](std::int64_t h, int worker) {
    const HeadView<T> head = rows.head(h);
    double* own = doubles + worker * 3 * dim;
    const LagScratch scratch{own, own + dim, own + 2 * dim, floats + worker * dim};
    float* to = out.head(h);
    std::fill_n(to, head.rows, 0.0f);
    for (std::int64_t p = 0; p < partitions.scored(head.rows); ++p) {
      measure_channels(head, partitions.first_row(p + 1), partitions.lag, scratch);
      for (std::int64_t i = partitions.first_row(p); i < partitions.first_row(p + 1); ++i) {
        load_row(head, i, scratch.row);
        to[i] = deviation_of_row(dim, scratch);
      }
    }
  });
}

/// Replaces the deviations of one partition by half their softmax.
inline void half_softmax(float* z, std::int64_t n) {
  const Exponentials all = exponentials(z, n);
  const auto scale = static_cast<float>(0.5 / all.sum);
  for (std::int64_t i = 0; i < n; ++i) z[i] *= scale;
}

/// to[i] = how many of s[0 .. n) are worse than s[i], / n; NaN stays. `order` holds n numbers.
inline void ranks_of(const float* s, std::int64_t n, std::int64_t* order, float* to) {
  std::iota(order, order + n, std::int64_t{0});
  std::sort(order, order + n,
            [&](std::int64_t a, std::int64_t b) { return s[a] != s[b] ? s[a] < s[b] : a > b; });
  for (std::int64_t rank = 0; rank < n; ++rank) {
    to[order[rank]] = static_cast<float>(static_cast<double>(rank) / static_cast<double>(n));
  }
}

inline void rank_by_recency(std::int64_t skip_first, std::int64_t rows, float* scores) {
  const std::int64_t first = std::min(skip_first, rows);
  const auto count = static_cast<double>(rows - first);
  for (std::int64_t i = first; i < rows; ++i) {
    scores[i] = static_cast<float>(static_cast<double>(i - first) / count);
  }
  std::fill_n(scores, first, first < rows ? scores[rows - 1] : 0.0f);
}

inline void lag_scores_impl(Resources& res, ScoreView<> keys, ScoreView<> values,
                            const LagPartitions& partitions, bool ranks, ScoreView<> scores) {
  const std::int64_t longest = std::min(partitions.lag, scores.layout.longest());
  WorkspaceScope scope(res.workspace());
  auto* orders = scope.carve<std::int64_t>("lag_scores.order", res.threads() * longest);
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int worker) {
    const std::int64_t rows = scores.layout.rows(h);
    const std::int64_t count = partitions.scored(rows);
    float* to = scores.head(h);
    if (count == 0) return rank_by_recency(partitions.skip_first, rows, to);
    float largest = std::numeric_limits<float>::quiet_NaN();
    for (std::int64_t p = 0; p < count; ++p) {
      const std::int64_t first = partitions.first_row(p);
      float* s = keys.head(h) + first;
      float* of_values = values.head(h) + first;
      half_softmax(s, partitions.lag);
      half_softmax(of_values, partitions.lag);
      for (std::int64_t i = 0; i < partitions.lag; ++i) s[i] += of_values[i];
      // One NaN makes a whole softmax NaN.
      if (ranks && !std::isnan(s[0])) {
        ranks_of(s, partitions.lag, orders + worker * longest, to + first);
      } else {
        std::copy_n(s, partitions.lag, to + first);
      }
      for (std::int64_t i = first; i < first + partitions.lag; ++i) {
        if (!(to[i] <= largest) && !std::isnan(to[i])) largest = to[i];
      }
    }
    std::fill_n(to, partitions.skip_first, largest);
    std::fill(to + partitions.first_row(count), to + rows, largest);
  });
}

}  // namespace kvevict::cpu
