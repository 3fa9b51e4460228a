// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kvevict/cpu/select_top.hpp"
#include "kvevict/math/fixed_mass.hpp"
#include "kvevict/math/sort_key.hpp"
#include "kvevict/ops/score_order.hpp"

namespace kvevict::cpu {

/// keys[i]: the rows of a head in the order of selection.
inline void sort_head(const float* scores, std::int64_t rows, std::uint64_t* keys) {
  for (std::int64_t i = 0; i < rows; ++i) keys[i] = sort_key(scores[i], i);
  std::sort(keys, keys + rows);
}

inline void rank_scores_impl(Resources& res, ScoreView<> scores, ScoreView<> out) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t longest = scores.layout.longest();
  auto* keys = scope.carve<std::uint64_t>("rank_scores.keys", res.threads() * longest);
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int worker) {
    const std::int64_t rows = scores.layout.rows(h);
    std::uint64_t* mine = keys + worker * longest;
    sort_head(scores.head(h), rows, mine);
    float* ranks = out.head(h);
    for (std::int64_t k = 0; k < rows; ++k) {
      ranks[row_of_key(mine[k])] =
          static_cast<float>(static_cast<double>(rows - k) / static_cast<double>(rows));
    }
  });
}

inline void remaining_mass_impl(Resources& res, ScoreView<> scores, const Positions<>& positions,
                                const Protect& protect, ScoreView<> out) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t longest = scores.layout.longest();
  auto* keys = scope.carve<std::uint64_t>("remaining_mass.keys", res.threads() * longest);
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int worker) {
    const std::int64_t rows = scores.layout.rows(h);
    const float* head = scores.head(h);
    float* result = out.head(h);
    std::uint64_t* mine = keys + worker * longest;
    sort_head(head, rows, mine);
    float largest = 0.0f;
    for (std::int64_t i = 0; i < rows; ++i) largest = std::max(largest, mass_of(head[i]));
    const int bits = mass_bits(rows);
    std::int64_t whole = 0;
    for (std::int64_t i = 0; i < rows; ++i) whole += fixed_mass(head[i], largest, bits);
    std::fill_n(result, rows, 0.0f);
    for_each_protected_range(protect, positions.row(h, scores.layout), rows,
                             [&](std::int64_t begin, std::int64_t end) {
                               std::fill(result + begin, result + end, 1.0f);
                             });
    std::int64_t part = 0;
    for (std::int64_t k = rows; k-- > 0;) {
      const std::int64_t row = row_of_key(mine[k]);
      if (result[row] != 0.0f) continue;
      part += fixed_mass(head[row], largest, bits);
      result[row] = mass_fraction(part, whole);
    }
  });
}

}  // namespace kvevict::cpu
