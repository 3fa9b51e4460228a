// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/cpu/resources.hpp"
#include "kvevict/math/lifted_score.hpp"
#include "kvevict/ops/streamed_rows.hpp"

namespace kvevict::cpu {

inline void extend_candidates_impl(Resources& res, const RowLayout<>& layout, std::int64_t carried,
                                   std::int64_t next, const StreamedRows& rows) {
  if (res.workspace().counting()) return;
  res.parallel_for(layout.heads(), [&](std::int64_t h, int) {
    std::int32_t* candidates = rows.candidates + layout.offset(h);
    const std::int32_t* kept = rows.kept + h * rows.keep;
    for (std::int64_t j = 0; j < layout.rows(h); ++j) {
      candidates[j] = j < carried ? kept[j] : static_cast<std::int32_t>(next + j - carried);
    }
  });
}

inline void settle_candidates_impl(Resources& res, ScoreView<> ranks, const SelectionView<>& chosen,
                                   float dropped, const StreamedRows& rows, ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(ranks.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t count = ranks.layout.rows(h);
    const std::int32_t* candidates = rows.candidates + ranks.layout.offset(h);
    const std::int32_t* indices = chosen.head(h);
    std::int32_t* kept = rows.kept + h * rows.keep;
    for (std::int64_t i = 0; i < chosen.count(h); ++i) kept[i] = candidates[indices[i]];
    const float* rank = ranks.head(h);
    float* out = scores.head(h);
    for (std::int64_t j = 0; j < count; ++j) {
      out[candidates[j]] = is_among_best(rank[j], chosen.count(h), count) ? rank[j] : dropped;
    }
  });
}

}  // namespace kvevict::cpu
