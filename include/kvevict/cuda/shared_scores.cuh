// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cuda/group_reduction.cuh"
#include "kvevict/ops/shared_scores.hpp"

namespace kvevict::cuda {

namespace detail {

/// The blocks of the first head of a group do the work for all of its heads.
struct ShareScores {
  ReduceGroup reduce;  ///< `in` and `out` are the scores
  int group;

  __device__ void operator()(const HeadTile& tile) const {
    if (tile.head % group != 0) return;
    const std::int64_t rows = reduce.out.layout.rows(tile.head);
    float* first = reduce.out.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) {
      const float shared = reduce.reduced(first + i, rows);
      for (int h = 0; h < group; ++h) first[h * rows + i] = shared;
    });
  }
};

}  // namespace detail

/// One read and one write of the scores.
inline void share_scores_impl(Resources& res, ScoreView<MemorySpace::device> scores,
                              std::int64_t group, GroupReduction reduction) {
  if (res.workspace().counting()) return;
  const double weight = reduction == GroupReduction::mean ? 1.0 / static_cast<double>(group) : 1.0;
  const int heads = static_cast<int>(group);
  const detail::ReduceGroup reduce{scores, heads, reduction, ReductionDomain::linear,
                                   weight, scores};
  for_each_score_tile(res, "share_scores", scores.layout, detail::ShareScores{reduce, heads});
}

}  // namespace kvevict::cuda
