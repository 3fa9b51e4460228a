// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/core/evidence.hpp"
#include "kvevict/cuda/copy.cuh"
#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/ops/mass.hpp"

namespace kvevict::cuda {

namespace detail {

struct CopyLeadingMass {
  AttentionMass<MemorySpace::device> mass;
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    const float* from = mass.data + mass.layout.offset(tile.head);
    float* to = scores.head(tile.head);
    for_rows_of(tile, [&](std::int64_t row) { to[row] = from[row]; });
  }
};

}  // namespace detail

/// Both are packed in the order of their heads: one copy.
inline void copy_mass_impl(Resources& res, const AttentionMass<MemorySpace::device>& mass,
                           ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  copy(res, mass.data, scores.layout.total(), scores.data);
}

/// A read and a write of each score.
inline void copy_leading_mass_impl(Resources& res, const AttentionMass<MemorySpace::device>& mass,
                                   ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "copy_leading_mass", scores.layout,
                      detail::CopyLeadingMass{mass, scores});
}

}  // namespace kvevict::cuda
