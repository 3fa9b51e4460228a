// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/ops/checks.hpp"
#include "kvevict/ops/group_reduction.hpp"

namespace kvevict {

namespace detail {

/// Throws unless groups of `group` consecutive heads divide the heads and hold equally many rows.
template <MemorySpace S>
void require_equal_rows(const RowLayout<S>& device_layout, std::int64_t group) {
  const RowLayout<> layout = device_layout.host();
  require(group >= 1 && layout.heads() % group == 0, "heads_per_group", group,
          "a divisor of the heads,", layout.heads());
  for (std::int64_t h = 0; h < layout.heads() && !layout.is_uniform(); ++h) {
    const std::int64_t first = h / group * group;
    require_for_head(layout.rows(h) == layout.rows(first), "rows", h, layout.rows(h),
                     "those of the first head of its group,", layout.rows(first));
  }
}

}  // namespace detail

/// scores[h][i] = reduction of scores[g][i] over the heads g of h's group of `group` consecutive
/// heads, for every head of the group: afterwards all heads of a group have the same scores. In
/// place. NaN propagates. Throws invalid_argument unless groups divide the heads and the heads of a
/// group hold equally many rows.
template <class R>
void share_scores(R& res, ScoreView<R::space> scores, std::int64_t group,
                  GroupReduction reduction) {
  detail::require_equal_rows(scores.layout, group);
  share_scores_impl(res, scores, group, reduction);
}

}  // namespace kvevict
