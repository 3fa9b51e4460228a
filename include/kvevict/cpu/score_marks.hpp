// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/math/lifted_score.hpp"
#include "kvevict/ops/score_marks.hpp"

namespace kvevict::cpu {

inline void mark_best_impl(Resources& res, ScoreView<> ranks, double part, const RowLayout<>& of,
                           ScoreView<> marks) {
  if (res.workspace().counting()) return;
  res.parallel_for(ranks.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = ranks.layout.rows(h);
    const float* in = ranks.head(h);
    float* out = marks.head(h);
    const std::int64_t marked = marked_rows(part, of.rows(h));
    for (std::int64_t i = 0; i < rows; ++i) {
      out[i] = is_among_best(in[i], marked, rows) ? in[i] : 0.0f;
    }
  });
}

inline void mark_protected_impl(Resources& res, const Positions<>& positions,
                                const Protect& protect, ScoreView<> marks) {
  if (res.workspace().counting()) return;
  res.parallel_for(marks.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = marks.layout.rows(h);
    float* out = marks.head(h);
    std::fill_n(out, rows, 0.0f);
    for_each_protected_range(
        protect, positions.row(h, marks.layout), rows,
        [&](std::int64_t begin, std::int64_t end) { std::fill(out + begin, out + end, 1.0f); });
  });
}

inline void mark_small_impl(Resources& res, ScoreView<> norms, double threshold,
                            ScoreView<> marks) {
  if (res.workspace().counting()) return;
  res.parallel_for(norms.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = norms.layout.rows(h);
    const float* in = norms.head(h);
    float* out = marks.head(h);
    double sum = 0.0;
    for (std::int64_t i = 0; i < rows; ++i) sum += static_cast<double>(in[i]);
    const double bound =
        std::isfinite(sum) ? threshold * sum / static_cast<double>(rows) : 0.0;  // none below 0
    for (std::int64_t i = 0; i < rows; ++i) {
      out[i] = static_cast<double>(in[i]) < bound ? 1.0f : 0.0f;
    }
  });
}

inline void lift_marked_impl(Resources& res, ScoreView<> marks, ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = scores.layout.rows(h);
    const float* mark = marks.head(h);
    float* score = scores.head(h);
    float largest = 0.0f;
    for (std::int64_t i = 0; i < rows; ++i) {
      if (mark[i] == 0.0f && score[i] > largest) largest = score[i];
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      if (mark[i] != 0.0f) score[i] = lifted_score(largest, mark[i]);
    }
  });
}

}  // namespace kvevict::cpu
