// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

/// The same where heads of the mass may hold more rows, behind those that have scores.
template <class R>
void copy_leading_mass(R& res, const AttentionMass<R::space>& mass, ScoreView<R::space> scores) {
  const RowLayout<> given = mass.layout.host();
  const RowLayout<> rows = scores.layout.host();
  require(given.heads() == rows.heads(), "attention_mass.heads", given.heads(), "equal to",
          rows.heads());
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    require_for_head(given.rows(h) >= rows.rows(h), "attention_mass.rows", h, given.rows(h),
                     "at least the rows of the head,", rows.rows(h));
  }
  copy_leading_mass_impl(res, mass, scores);
}

}  // namespace kvevict
