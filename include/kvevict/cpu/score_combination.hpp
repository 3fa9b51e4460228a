// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/math/combined_score.hpp"
#include "kvevict/ops/score_combination.hpp"

namespace kvevict::cpu {

inline void chunk_means_impl(Resources& res, std::int64_t chunk, ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = scores.layout.rows(h);
    for (std::int64_t first = 0; first < rows; first += chunk) {
      const std::int64_t count = std::min(chunk, rows - first);
      replace_by_mean(scores.head(h) + first, count);
    }
  });
}

inline void scale_scores_impl(Resources& res, float weight, ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    float* out = scores.head(h);
    for (std::int64_t i = 0; i < scores.layout.rows(h); ++i) out[i] *= weight;
  });
}

inline void combine_scores_impl(Resources& res, ScoreView<> more, float weight,
                                Combination combination, ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const float* in = more.head(h);
    float* out = scores.head(h);
    for (std::int64_t i = 0; i < scores.layout.rows(h); ++i) {
      const float term = weight * in[i];
      if (combination == Combination::sum) {
        out[i] += term;
      } else {
        out[i] =
            combination == Combination::max ? larger_of(out[i], term) : smaller_of(out[i], term);
      }
    }
  });
}

inline void multiply_scores_impl(Resources& res, ScoreView<> factors, double epsilon,
                                 bool from_lowest, ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = scores.layout.rows(h);
    const float* factor = factors.head(h);
    float* out = scores.head(h);
    float lowest = std::numeric_limits<float>::infinity();
    for (std::int64_t i = 0; i < rows && from_lowest; ++i) {
      if (out[i] < lowest) lowest = out[i];
    }
    const double added = epsilon - (from_lowest && std::isfinite(lowest) ? lowest : 0.0);
    for (std::int64_t i = 0; i < rows; ++i) {
      out[i] = static_cast<float>((static_cast<double>(out[i]) + added) *
                                  static_cast<double>(factor[i]));
    }
  });
}

inline void replace_heads_impl(Resources& res, const std::uint8_t* chosen, ScoreView<> other,
                               ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    if (chosen[h] == 0) return;
    std::copy_n(other.head(h), scores.layout.rows(h), scores.head(h));
  });
}

}  // namespace kvevict::cpu
