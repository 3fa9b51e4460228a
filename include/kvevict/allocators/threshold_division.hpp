// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/core/concepts.hpp"
#include "kvevict/core/head_ranks.hpp"
#include "kvevict/ops/select_top.hpp"

namespace kvevict::detail {

/// counts: for each group of `group` consecutive heads what one threshold over their scores gives
/// them of their shares together. `least(share)` is the floor of a head with that share, as far as
/// the cap allows.
template <class R, class Least>
void divide_by_threshold(R& res, const AllocationInput<R::space>& input, std::int64_t group,
                         Least&& least, std::int64_t cap, const HeadRanks& ranks,
                         std::int64_t* counts) {
  const std::int64_t heads = input.scores.layout.heads();
  WorkspaceScope scope(res.host_workspace());
  auto* limits = scope.template carve<HeadLimits>("threshold.limits", heads);
  auto* totals = scope.template carve<std::int64_t>("threshold.totals", heads);
  if (!res.workspace().counting()) {
    for (std::int64_t h = 0; h < heads; ++h) {
      limits[h] = {std::min(least(input.shares[h]), cap), cap};
      totals[h / group] = (h % group == 0 ? 0 : totals[h / group]) + input.shares[h];
    }
  }
  global_counts(res, input, ThresholdGroups{group, totals, limits, ranks}, counts);
}

}  // namespace kvevict::detail
