// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/allocators/shared_counts.hpp"
#include "kvevict/allocators/weighted_division.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/score_spread.hpp"

namespace kvevict {

/// Heads keep rows in proportion to the number of rows over which their scores are spread: heads
/// that attend to few rows keep few. By entropy: exp of the entropy of the normalised scores, the
/// allocation by attention entropy of MEDA (arXiv 2502.17599, which takes it of layers). By
/// variance: 1 / sum p^2, a function of the variance of the normalised scores alone, the quantity
/// by which D2O (arXiv 2406.13035) sizes its layers: a low variance means dense attention and many
/// rows. Scores must be masses, as attention is: negative ones count as none. Rounded by largest
/// remainders.
///
/// For layers instead of heads, as in both papers: `heads_together` heads, those of a layer, have
/// one spread, that of the mean of their scores, and keep equally many rows, but for one each where
/// the rows of a layer cannot be divided.
///
/// Groups of `heads_per_group` consecutive heads divide their own shares only. Throws a budget
/// error when protected rows and floors of a group exceed its total, or caps stay below it, and for
/// heads that count together as MassBudget does. Two reads of the scores; a device is waited for.
struct SpreadBudget {
  Spread spread = Spread::entropy;
  std::int64_t heads_per_group = 0;  ///< 0: all heads divide one total
  std::int64_t heads_together = 1;  ///< consecutive heads, of all processes, that keep equally many
  std::int64_t floor = 1;           ///< rows that every head keeps at least
  std::int64_t cap = max_rows_per_head;  ///< rows that a head keeps at most
  HeadRanks ranks = {};                  ///< heads of every layer spread over processes

  template <class R>
  void allocate(R& res, const AllocationInput<R::space>& input, std::int64_t* counts) const {
    const std::int64_t heads = input.scores.layout.heads();
    detail::require_limits(floor, cap);
    const std::int64_t group =
        detail::require_groups(heads, heads_per_group, "heads_per_group", ranks);
    detail::require_units(input.scores.layout, heads_together, group, ranks);
    WorkspaceScope scope(res.host_workspace());
    auto* spreads = scope.template carve<double>("SpreadBudget.spreads", heads);
    auto* weights = scope.template carve<std::int64_t>("SpreadBudget.weights", heads);
    {
      WorkspaceScope of_scores(res.workspace());
      const ScoreView<R::space> scores =
          detail::scores_of_units(res, of_scores, input.scores, heads_together, ranks);
      effective_rows(res, scores, spread, spreads);
    }
    if (!res.workspace().counting()) {
      for (std::int64_t h = 0; h < heads; ++h) weights[h] = detail::row_weight(spreads[h]);
    }
    const auto groups =
        detail::HeadColumns::consecutive(ranks.all_heads(heads), ranks.all_heads(group));
    detail::divide_by_weights(res, input, weights, floor, cap, groups, ranks, counts);
    detail::level_units(res, input, heads_together, floor, cap, ranks, counts);
  }

  friend bool operator==(const SpreadBudget&, const SpreadBudget&) = default;
};

}  // namespace kvevict
