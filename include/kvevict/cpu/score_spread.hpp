// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/math/fixed_mass.hpp"
#include "kvevict/ops/score_spread.hpp"

namespace kvevict::cpu {

inline void effective_rows_impl(Resources& res, ScoreView<> scores, Spread spread, double* out) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = scores.layout.rows(h);
    const float* head = scores.head(h);
    float largest = 0.0f;
    for (std::int64_t i = 0; i < rows; ++i) largest = std::max(largest, mass_of(head[i]));
    kvevict::detail::SpreadSums sums;
    for (std::int64_t i = 0; i < rows && largest > 0.0f; ++i) {
      const double x = static_cast<double>(mass_of(head[i])) / static_cast<double>(largest);
      sums.mass += x;
      sums.weighted += kvevict::detail::spread_term(spread, x);
    }
    out[h] = kvevict::detail::rows_of_spread(spread, sums, rows);
  });
}

}  // namespace kvevict::cpu
