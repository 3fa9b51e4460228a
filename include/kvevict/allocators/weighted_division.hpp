// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kvevict/allocators/checks.hpp"
#include "kvevict/allocators/largest_remainder.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/core/head_ranks.hpp"
#include "kvevict/ops/global_heads.hpp"
#include "kvevict/ops/select_top.hpp"

namespace kvevict::detail {

/// Which heads divide their rows among each other: group g consists of `size` heads from `first(g)`
/// on, `step` apart.
struct HeadColumns {
  std::int64_t count = 0;  ///< of groups
  std::int64_t size = 0;   ///< heads of a group
  std::int64_t step = 1;
  std::int64_t columns = 1;  ///< groups that lie between each other, one head apart

  std::int64_t head(std::int64_t group, std::int64_t i) const {
    return group / columns * columns * size + group % columns + i * step;
  }

  /// Groups of `heads` consecutive heads, all heads if 0.
  static HeadColumns consecutive(std::int64_t all, std::int64_t heads) {
    if (heads == 0) heads = all;
    return {heads == 0 ? 0 : all / heads, heads, 1, 1};
  }
};

/// `rows` in units of 2^-20, as divide_rows weighs.
inline std::int64_t row_weight(double rows) { return std::llround(rows * 0x1p20); }

/// counts: the shares of every group of heads divided anew by weights[head], with at least `floor`
/// rows and the protected ones for each head and at most `cap`. Groups are of the heads of all
/// processes. O(heads) but for rounds of divide_rows.
template <class R>
void divide_by_weights(R& res, const AllocationInput<R::space>& input, const std::int64_t* weights,
                       std::int64_t floor, std::int64_t cap, const HeadColumns& groups,
                       const HeadRanks& ranks, std::int64_t* counts) {
  const RowLayout<> layout = input.scores.layout.host();
  const std::int64_t heads = layout.heads();
  const std::int64_t all = ranks.all_heads(heads);
  WorkspaceScope scope(res.host_workspace());
  auto* held = scope.template carve<std::int64_t>("division.protected", heads);
  auto* numbers = scope.template carve<std::int64_t>("division.numbers", 4 * all);
  auto* quotas = scope.template carve<Quota>("division.quotas", groups.size);
  auto* order = scope.template carve<std::int64_t>("division.order", groups.size);
  protected_counts(res, input.positions, input.protect, input.scores.layout, held);
  if (res.workspace().counting()) return;
  std::int64_t* const shares = numbers;
  std::int64_t* const all_weights = numbers + all;
  std::int64_t* const lows = numbers + 2 * all;
  std::int64_t* const highs = numbers + 3 * all;
  const auto low = [&](std::int64_t h) {
    return std::max(held[h], std::min(floor_of(input.shares[h], floor), layout.rows(h)));
  };
  ranks.gather(
      heads, [&](std::int64_t h) { return input.shares[h]; }, shares);
  ranks.gather(
      heads, [&](std::int64_t h) { return weights[h]; }, all_weights);
  ranks.gather(heads, low, lows);
  ranks.gather(
      heads, [&](std::int64_t h) { return std::max(low(h), std::min(cap, layout.rows(h))); },
      highs);
  for (std::int64_t g = 0; g < groups.count; ++g) {
    std::int64_t lowest = 0;
    std::int64_t total = 0;
    std::int64_t highest = 0;
    for (std::int64_t i = 0; i < groups.size; ++i) {
      const std::int64_t h = groups.head(g, i);
      quotas[i] = {all_weights[h], lows[h], highs[h]};
      lowest += lows[h];
      total += shares[h];
      highest += highs[h];
    }
    require_total_fits(lowest, total, highest, g, groups.count);
    divide_rows(quotas, groups.size, total, order);
    for (std::int64_t i = 0; i < groups.size; ++i) shares[groups.head(g, i)] = quotas[i].count;
  }
  for (std::int64_t h = 0; h < heads; ++h) counts[h] = shares[ranks.global_head(h)];
}

}  // namespace kvevict::detail
