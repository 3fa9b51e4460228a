// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "kvevict/allocators/weighted_division.hpp"
#include "kvevict/core/concepts.hpp"

namespace kvevict {

/// Heads keep rows in the proportions of a table, made once for a model: keep[head] is the part of
/// its rows that a head should keep, as in LU-KV's recipe (kvpress, LUKVPress):
///   wanted_h = keep_h * rows_h, scaled to what the shares sum to, rounded by largest remainders.
/// With shares that sum to the sum of the wanted rows the table is followed as it stands; another
/// budget scales it. Groups of `heads_per_group` consecutive heads divide their own shares only.
/// Reads no scores.
///
/// Throws invalid_argument for a table of another number of heads or entries outside [0, 1], and a
/// budget error when protected rows and floors exceed a group's total, or caps stay below it.
struct TableBudget {
  std::span<const double> keep = {};  ///< [heads of this process]; must outlive the calls
  std::int64_t heads_per_group = 0;   ///< 0: all heads divide one total
  std::int64_t floor = 1;             ///< rows that every head keeps at least, protected included
  std::int64_t cap = max_rows_per_head;  ///< rows that a head keeps at most
  HeadRanks ranks = {};                  ///< heads of a layer spread over processes

  template <class R>
  void allocate(R& res, const AllocationInput<R::space>& input, std::int64_t* counts) const {
    const RowLayout<> layout = input.scores.layout.host();
    const std::int64_t heads = layout.heads();
    detail::require_limits(floor, cap);
    require(static_cast<std::int64_t>(keep.size()) == heads, "keep.size", keep.size(),
            "equal to the heads,", heads);
    const std::int64_t group =
        detail::require_groups(heads, heads_per_group, "heads_per_group", ranks);
    WorkspaceScope scope(res.host_workspace());
    auto* weights = scope.template carve<std::int64_t>("TableBudget.weights", heads);
    for (std::int64_t h = 0; h < heads; ++h) {
      const double part = keep[static_cast<std::size_t>(h)];
      require_for_head(part >= 0.0 && part <= 1.0, "keep", h, part, "from 0 to", 1);
      if (res.workspace().counting()) continue;
      weights[h] = detail::row_weight(part * static_cast<double>(layout.rows(h)));
    }
    const auto groups =
        detail::HeadColumns::consecutive(ranks.all_heads(heads), ranks.all_heads(group));
    detail::divide_by_weights(res, input, weights, floor, cap, groups, ranks, counts);
  }

  /// The row of a table for 1, 2, ... 99 per cent that a ratio of evicted rows selects:
  /// round(100 ratio) - 1, halves to even, within [0, 98].
  static std::int64_t row_of_ratio(double ratio) {
    return std::clamp<std::int64_t>(std::llrint(100.0 * ratio) - 1, 0, 98);
  }
};

}  // namespace kvevict
