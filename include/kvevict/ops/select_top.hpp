// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/concepts.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// held[h] = protected rows of head h, to host memory. Waits for a device only when its positions
/// must be read: stored ones, and a protection by position. O(heads spans^2 log rows).
template <class R>
void protected_counts(R& res, const Positions<R::space>& positions, const Protect& protect,
                      const RowLayout<R::space>& layout, std::int64_t* held) {
  require_valid(protect);
  protected_counts_impl(res, positions, protect, layout, held);
}

/// indices[kept.offset(h) ...] = the rows of head h that survive, ascending: its protected rows
/// and, of the others, those first in the order score descending, then row ascending; NaN ranks
/// lowest, -0 equals +0. Exactly kept.rows(h) rows. Deterministic: a radix select over
/// order-preserving integers, about four passes over the scores, no sort. NaN scores are counted in
/// the report.
///
/// Throws invalid_argument when a head is to keep more rows than it has, and, on the host, a budget
/// error when a head's protected rows exceed its count. On a device that must not happen
/// (`protected_counts`): such a head keeps the first of its protected rows.
template <class R>
void select_top(R& res, ScoreView<R::space> scores, const Positions<R::space>& positions,
                const Protect& protect, const RowLayout<R::space>& kept, std::int32_t* indices) {
  require_valid(protect);
  require(scores.layout.longest() <= max_rows_per_head, "rows", scores.layout.longest(),
          "<=", max_rows_per_head);
  if (!res.workspace().counting()) {
    require_counts_fit(SelectionView<R::space>{kept, indices}, scores.layout);
  }
  select_top_impl(res, scores, positions, protect, kept, indices);
}

/// counts[h] = rows of each head that the best `total` rows of all heads together contain: one
/// threshold over all of them. Every head keeps its protected rows and at least `floor` rows (or
/// all it has), at most `cap`; beyond that, order is score descending, then head, then row
/// ascending; NaN lowest. The sum of the counts is `total`.
///
/// Throws a budget error when floors exceed `total` or caps do not reach it. `counts` are in host
/// memory: a device is waited for. About three passes over the scores.
template <class R>
void global_counts(R& res, const AllocationInput<R::space>& input, std::int64_t total,
                   std::int64_t floor, std::int64_t cap, std::int64_t* counts) {
  require_valid(input.protect);
  require(floor >= 0, "floor", floor, ">=", 0);
  require(cap >= floor, "cap", cap, ">= floor,", floor);
  global_counts_impl(res, input, total, floor, cap, counts);
}

}  // namespace kvevict
