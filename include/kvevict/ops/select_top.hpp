// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/concepts.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// indices[sum of the counts before h ...] = the rows of head h that survive, ascending: its
/// protected rows and, of the others, those first in the order score descending, then row
/// ascending; NaN ranks lowest, -0 equals +0. Exactly counts[h] rows. Deterministic: a radix select
/// over order-preserving integers, about four passes over the scores, no sort. NaN scores are
/// counted in the report.
///
/// `offsets` [heads + 1] are the sums of the counts. Throws a budget error when a head's protected
/// rows exceed its count, invalid_argument when a count is negative or above the head's rows.
template <class R>
void select_top(R& res, ScoreView<R::space> scores, const Positions<R::space>& positions,
                const Protect& protect, const std::int64_t* offsets, std::int32_t* indices) {
  require_valid(protect);
  require(scores.layout.longest() <= max_rows_per_head, "rows", scores.layout.longest(),
          "<=", max_rows_per_head);
  select_top_impl(res, scores, positions, protect, offsets, indices);
}

/// counts[h] = rows of each head that the best `total` rows of all heads together contain: one
/// threshold over all of them. Every head keeps its protected rows and at least `floor` rows (or
/// all it has), at most `cap`; beyond that, order is score descending, then head, then row
/// ascending; NaN lowest. The sum of the counts is `total`.
///
/// Throws a budget error when floors exceed `total` or caps do not reach it. About three passes
/// over the scores.
template <class R>
void global_counts(R& res, const AllocationInput<R::space>& input, std::int64_t total,
                   std::int64_t floor, std::int64_t cap, std::int64_t* counts) {
  require_valid(input.protect);
  require(floor >= 0, "floor", floor, ">=", 0);
  require(cap >= floor, "cap", cap, ">= floor,", floor);
  global_counts_impl(res, input, total, floor, cap, counts);
}

}  // namespace kvevict
