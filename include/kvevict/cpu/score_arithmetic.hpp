// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/ops/score_arithmetic.hpp"

namespace kvevict::cpu {

/// Divides `n` scores, or their squares, by their sum.
inline void shares_of_window(float* scores, std::int64_t n, ReductionDomain domain) {
  const bool roots = domain == ReductionDomain::square_root;
  const auto amount = [&](std::int64_t i) {
    const auto value = static_cast<double>(scores[i]);
    return roots ? value * value : value;
  };
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += amount(i);
  // An infinite sum leaves no shares; a division would make those of the others 0.
  const bool lost = std::isinf(sum);
  for (std::int64_t i = 0; i < n; ++i) {
    scores[i] = lost         ? std::numeric_limits<float>::quiet_NaN()
                : sum == 0.0 ? 0.0f
                             : static_cast<float>(amount(i) / sum);
  }
}

inline void window_shares_impl(Resources& res, ScoreView<> scores, std::int64_t window,
                               ReductionDomain domain) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = scores.layout.rows(h);
    const std::int64_t step = window == 0 ? std::max<std::int64_t>(rows, 1) : window;
    for (std::int64_t first = 0; first < rows; first += step) {
      shares_of_window(scores.head(h) + first, std::min(step, rows - first), domain);
    }
  });
}

inline void standardise_impl(Resources& res, const RowRange& range, ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = scores.layout.rows(h);
    const std::int64_t begin = range.begin(rows);
    const std::int64_t end = range.end(rows);
    float* values = scores.head(h);
    double sum = 0.0;
    for (std::int64_t i = begin; i < end; ++i) sum += static_cast<double>(values[i]);
    const double mean = sum / static_cast<double>(end - begin);
    double squares = 0.0;
    for (std::int64_t i = begin; i < end; ++i) {
      const double distance = static_cast<double>(values[i]) - mean;
      squares += distance * distance;
    }
    const double deviation =
        end - begin > 1 ? std::sqrt(squares / static_cast<double>(end - begin - 1)) : 0.0;
    const double unit = kvevict::detail::standard_unit(mean, deviation);
    std::fill_n(values, begin, 0.0f);
    for (std::int64_t i = begin; i < end; ++i) {
      values[i] = static_cast<float>((static_cast<double>(values[i]) - mean) / unit);
    }
    std::fill(values + end, values + rows, 0.0f);
  });
}

}  // namespace kvevict::cpu
