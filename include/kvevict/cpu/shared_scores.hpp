// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/ops/shared_scores.hpp"

namespace kvevict::cpu {

inline void share_scores_impl(Resources& res, ScoreView<> scores, std::int64_t group,
                              GroupReduction reduction) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t longest = scores.layout.longest();
  float* memory = scope.carve<float>("share_scores.row", res.threads() * longest);
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads() / group, [&](std::int64_t g, int worker) {
    // The heads of a group lie one after the other and hold equally many rows.
    float* const first = scores.head(g * group);
    const std::int64_t rows = scores.layout.rows(g * group);
    float* shared = memory + worker * longest;
    reduce_head(first, group, rows, reduction, ReductionDomain::linear, shared);
    for (std::int64_t h = 0; h < group; ++h) std::copy_n(shared, rows, first + h * rows);
  });
}

}  // namespace kvevict::cpu
