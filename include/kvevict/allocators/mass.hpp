// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/allocators/checks.hpp"
#include "kvevict/allocators/shared_counts.hpp"
#include "kvevict/allocators/threshold_division.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/core/head_ranks.hpp"
#include "kvevict/ops/score_order.hpp"

namespace kvevict {

/// Every head keeps the same part of its own mass (PrefixKV's cumulative-mass rule, arXiv
/// 2412.03409): with a head's rows in the order of selection, it keeps the shortest prefix whose
/// scores sum to at least a part p of all its scores, and p is the one for which all heads together
/// keep what their shares sum to. Heads whose mass lies on few rows keep few. A head's scores are
/// normalised by their sum, so they need not be comparable across heads, but they must be masses,
/// as attention is: negative ones count as none. Protected rows count as kept first. Ties go to the
/// first heads.
///
/// As published, for layers instead of heads: `heads_together` heads, those of a layer, have one
/// curve of mass, that of the mean of their scores, and keep equally many rows, but for one each
/// where the rows of a layer cannot be divided. Which rows these are, each head's own scores tell;
/// with `share_scores` before `select_rows` it is the same rows for a layer, as in the paper.
///
/// Groups of `heads_per_group` consecutive heads have a p of their own. Throws a budget error when
/// protected rows and floors of a group exceed its total, or caps stay below it, invalid_argument
/// when heads that count together hold different numbers of rows, and unsupported for such heads on
/// devices of several processes. Sorts the scores (`remaining_mass`), then as GlobalBudget. With
/// `ranks` and heads that count together, the hook is called with 8 bytes for each row of each head
/// of a layer, a layer at a time.
struct MassBudget {
  std::int64_t heads_per_group = 0;  ///< 0: all heads have one p
  std::int64_t heads_together = 1;  ///< consecutive heads, of all processes, that keep equally many
  std::int64_t floor = 1;           ///< rows that every head keeps at least
  std::int64_t cap = max_rows_per_head;  ///< rows that a head keeps at most
  HeadRanks ranks = {};                  ///< heads of every layer spread over processes

  template <class R>
  void allocate(R& res, const AllocationInput<R::space>& input, std::int64_t* counts) const {
    const RowLayout<R::space>& layout = input.scores.layout;
    const std::int64_t heads = layout.heads();
    detail::require_limits(floor, cap);
    const std::int64_t group =
        detail::require_groups(heads, heads_per_group, "heads_per_group", ranks);
    detail::require_units(layout, heads_together, group, ranks);
    WorkspaceScope scope(res.workspace());
    const ScoreView<R::space> parts{scope.template carve<float>("MassBudget.parts", layout.total()),
                                    layout};
    const ScoreView<R::space> scores =
        detail::scores_of_units(res, scope, input.scores, heads_together, ranks);
    remaining_mass(res, scores, input.positions, input.protect, parts);
    AllocationInput<R::space> by_mass = input;
    by_mass.scores = parts;
    const auto least = [&](std::int64_t share) { return detail::floor_of(share, floor); };
    detail::divide_by_threshold(res, by_mass, group, least, cap, ranks, counts);
    detail::level_units(res, input, heads_together, floor, cap, ranks, counts);
  }

  /// PrefixKV for a model whose layers have `heads_per_layer` KV heads each.
  static MassBudget published(std::int64_t heads_per_layer) {
    MassBudget budget;
    budget.heads_together = heads_per_layer;
    return budget;
  }

  friend bool operator==(const MassBudget&, const MassBudget&) = default;
};

}  // namespace kvevict
