// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kvevict/evict.hpp"
#include "kvevict/ops/shared_scores.hpp"

namespace kvevict {

// Selections for engines whose caches cannot be ragged: equally many rows in every head of a group
// of consecutive heads (such as a layer's), or the very same rows.

namespace detail {

/// Gives every head of a group the least of their shares, which differ by a row where bytes are
/// divided.
struct LeastShare {
  std::int64_t heads_per_group;

  template <class R>
  void allocate(R&, const AllocationInput<R::space>& input, std::int64_t* counts) const {
    for (std::int64_t h = 0; h < input.scores.layout.heads(); ++h) {
      const std::int64_t* shares = input.shares + h / heads_per_group * heads_per_group;
      counts[h] = *std::min_element(shares, shares + heads_per_group);
    }
  }
};

/// Throws unless the heads of a group have the same positions. Positions on a device are not read.
template <MemorySpace S>
void require_same_positions(const Positions<S>& positions, const RowLayout<S>& layout,
                            std::int64_t heads_per_group) {
  if constexpr (S == MemorySpace::host) {
    if (!positions.stored() || positions.is_shared()) return;
    for (std::int64_t h = 0; h < layout.heads(); ++h) {
      const std::int64_t first = h / heads_per_group * heads_per_group;
      const auto row = positions.row(h, layout);
      const auto first_row = positions.row(first, layout);
      for (std::int64_t i = 0; i < layout.rows(h); ++i) {
        require_for_head(row[i] == first_row[i], "positions[row]", h, row[i],
                         "that of the first head of its group,", first_row[i]);
      }
    }
  }
}

}  // namespace detail

/// The uniform-count form of a selection: every head of a group keeps as many rows as the head of
/// the group that keeps most, short heads being filled with their next best rows. `scores` and
/// `protect` are those by which `kept` was selected, so that `filled` contains `kept`. The rows
/// that are filled in go beyond the budget that `kept` was selected by: group by group
/// heads_per_group * max count rows are kept, exactly. `filled` may be `kept`.
///
/// Throws a budget error when a head holds fewer rows than its group is to keep, and
/// invalid_argument when shapes do not fit; `filled` is untouched then. Waits for a device only as
/// select_rows does.
template <class R, class T>
void fill_to_uniform_counts(R& res, typename R::selection_type& filled,
                            const typename R::selection_type& kept, ScoreView<R::space> scores,
                            const KvView<T, R::space>& cache, const Protect& protect,
                            std::int64_t heads_per_group) {
  detail::require_scores(scores, cache.layout(), 1);
  require_counts_fit(kept.view(), cache.layout());
  require_valid(protect);
  const std::int64_t heads = cache.heads();
  require(heads_per_group >= 1 && heads % heads_per_group == 0, "heads_per_group", heads_per_group,
          "a divisor of the heads,", heads);
  require(cache.layout().is_uniform() || cache.layout().host().offsets() != filled.offsets().data(),
          "filled", "the selection whose offsets the cache view reads", "another one");
  const Positions<R::space> positions(cache.positions());
  const RowLayout<> rows = cache.layout().host();
  const RowLayout<> given = kept.view().layout.host();
  WorkspaceScope scope(res.host_workspace());
  auto* counts = scope.template carve<std::int64_t>("fill_to_uniform_counts.counts", heads);
  auto* held = scope.template carve<std::int64_t>("fill_to_uniform_counts.protected", heads);
  if (res.workspace().counting()) {
    protected_counts(res, positions, protect, cache.layout(), held);
    select_top(res, scores, positions, protect, cache.layout(), nullptr);
    return;
  }
  for (std::int64_t first = 0; first < heads; first += heads_per_group) {
    std::int64_t most = 0;
    for (std::int64_t h = first; h < first + heads_per_group; ++h) {
      most = std::max(most, given.rows(h));
    }
    for (std::int64_t h = first; h < first + heads_per_group; ++h) {
      require_for_head(rows.rows(h) >= most, "rows", h, rows.rows(h),
                       "at least what its group keeps,", most, ErrorKind::budget);
      counts[h] = most;
    }
  }
  detail::require_counts(res, counts, protect, positions, cache.layout(), held);
  res.reset_nan_scores();
  res.make_room(filled, std::span<const std::int64_t>(counts, static_cast<std::size_t>(heads)));
  select_top(res, scores, positions, protect, filled.layout(), filled.indices_data());
  res.deliver_report(filled);
}

/// Selects the same rows for all heads of a group: those with the best scores summed (or averaged,
/// or maximised) over the group's heads, as ChunkKV and TOVA do. The heads of a group hold equally
/// many rows with the same positions, and each keeps the same number, which is that of the budget
/// (of bytes the largest that fits). Scores of heads are brought together as they are: with
/// `GroupReduction::max` or a policy whose scores are comparable across heads no head outvotes the
/// others. `scores` is overwritten with the shared scores.
///
/// Throws as select_rows does, and invalid_argument when the heads of a group differ in rows or
/// positions; positions in device memory are taken on trust.
template <class R, class T>
void select_same_rows(R& res, typename R::selection_type& kept, ScoreView<R::space> scores,
                      const KvView<T, R::space>& cache, std::int64_t heads_per_group,
                      GroupReduction reduction, const Budget& budget, const Protect& protect = {}) {
  detail::require_scores(scores, cache.layout(), 1);
  detail::require_equal_rows(cache.layout(), heads_per_group);
  detail::require_same_positions(Positions<R::space>(cache.positions()), cache.layout(),
                                 heads_per_group);
  share_scores(res, scores, heads_per_group, reduction);
  select_rows(res, kept, scores, cache, false, budget, protect,
              detail::LeastShare{heads_per_group});
}

/// The same from a policy: as evict_into, with one set of rows for all heads of a group.
template <class R, class P, class T>
void evict_same_rows_into(R& res, typename R::selection_type& kept, const P& policy,
                          const KvView<T, R::space>& cache, const Evidence<R::space>& evidence,
                          std::int64_t heads_per_group, GroupReduction reduction,
                          const Budget& budget, const Protect& protect = {}) {
  require_valid(protect);
  detail::require_equal_rows(cache.layout(), heads_per_group);
  detail::require_evictable<R>(policy, cache, evidence);
  WorkspaceScope scope(res.workspace());
  const ScoreView<R::space> scores{
      scope.template carve<float>("evict.scores", cache.layout().total()), cache.layout()};
  score_rows(res, policy, cache, evidence, scores);
  select_same_rows(res, kept, scores, cache, heads_per_group, reduction, budget, protect);
}

}  // namespace kvevict
