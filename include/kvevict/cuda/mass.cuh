// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/core/evidence.hpp"
#include "kvevict/cuda/copy.cuh"
#include "kvevict/ops/mass.hpp"

namespace kvevict::cuda {

/// Both are packed in the order of their heads: one copy.
inline void copy_mass_impl(Resources& res, const AttentionMass<MemorySpace::device>& mass,
                           ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  copy(res, mass.data, scores.layout.total(), scores.data);
}

}  // namespace kvevict::cuda
