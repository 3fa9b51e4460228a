// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/core/concepts.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/ops/checks.hpp"
#include "kvevict/ops/global_heads.hpp"

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

/// counts[h] = rows of each head that the best rows of its group of heads contain: one threshold
/// over all heads of a group. Every head keeps its protected rows and at least its floor (or all it
/// has), at most its cap; beyond that, order is score descending, then head, then row ascending;
/// NaN lowest. The counts of a group sum to its total, over all processes that `groups.ranks` adds
/// up.
///
/// Throws a budget error when the floors of a group exceed its total or caps do not reach it.
/// `counts` and `groups` are in host memory: a device is waited for, once, or with `ranks` once for
/// each digit. About three passes over the scores.
template <class R>
void global_counts(R& res, const AllocationInput<R::space>& input, const ThresholdGroups& groups,
                   std::int64_t* counts) {
  const std::int64_t heads = input.scores.layout.heads();
  require_valid(input.protect);
  require_valid(groups.ranks, heads);
  if (heads > 0) {
    require(groups.heads >= 1 && heads % groups.heads == 0, "groups.heads", groups.heads,
            "a divisor of the heads,", heads);
    require(groups.ranks.alone() || groups.heads % groups.ranks.heads == 0, "groups.heads",
            groups.heads, "a multiple of ranks.heads,", groups.ranks.heads);
  }
  global_counts_impl(res, input, groups, counts);
}

/// The same with one group of all heads, one floor and one cap.
template <class R>
void global_counts(R& res, const AllocationInput<R::space>& input, std::int64_t total,
                   std::int64_t floor, std::int64_t cap, std::int64_t* counts,
                   const HeadRanks& ranks = {}) {
  require(floor >= 0, "floor", floor, ">=", 0);
  require(cap >= floor, "cap", cap, ">= floor,", floor);
  const std::int64_t heads = input.scores.layout.heads();
  if (heads == 0) detail::require_total_fits(0, total, 0, 0, 1);
  WorkspaceScope scope(res.host_workspace());
  auto* limits = scope.template carve<HeadLimits>("global_counts.limits", heads);
  if (!res.workspace().counting()) std::fill_n(limits, heads, HeadLimits{floor, cap});
  global_counts(res, input, ThresholdGroups{heads, &total, limits, ranks}, counts);
}

}  // namespace kvevict
