// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kvevict/core/evidence.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/ops/mass.hpp"

namespace kvevict::cpu {

inline void copy_mass_impl(Resources& res, const AttentionMass<>& mass, ScoreView<> scores) {
  if (res.workspace().counting()) return;
  for (std::int64_t h = 0; h < scores.layout.heads(); ++h) {
    std::copy_n(mass.data + mass.layout.offset(h), scores.layout.rows(h), scores.head(h));
  }
}

inline void copy_leading_mass_impl(Resources& res, const AttentionMass<>& mass,
                                   ScoreView<> scores) {
  copy_mass_impl(res, mass, scores);  // head by head, whatever lies between them
}

}  // namespace kvevict::cpu
