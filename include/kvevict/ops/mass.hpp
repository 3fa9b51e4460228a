// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/core/evidence.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// scores[h][i] = mass[h][i].
template <class R>
void copy_mass(R& res, const AttentionMass<R::space>& mass, ScoreView<R::space> scores) {
  require(same_rows(mass.layout, scores.layout), "attention_mass.rows", "different",
          "one value for each row of each head");
  copy_mass_impl(res, mass, scores);
}

}  // namespace kvevict
