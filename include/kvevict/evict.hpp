// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "kvevict/allocators/uniform.hpp"
#include "kvevict/core/budget.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/select_top.hpp"

namespace kvevict {

namespace detail {

template <class P>
void validate_policy(const P& policy) {
  if constexpr (requires { policy.validate(); }) policy.validate();
}

/// What is checked before any scoring.
template <class R, class P, class T>
void require_evictable(const P& policy, const KvView<T, R::space>& cache,
                       const Evidence<R::space>& evidence) {
  validate_policy(policy);
  require_evidence(evidence, policy.needs(), policy.name());
  require(cache.layout().longest() <= max_rows_per_head, "cache.rows", cache.layout().longest(),
          "<=", max_rows_per_head);
  if constexpr (R::space == MemorySpace::host) require_ascending_positions(cache);
}

/// What an allocator must hand out, checked before the caller's selection is touched. Positions on
/// a device are counted only where the protection could be too large whatever they are. `held` is
/// scratch for one number a head.
template <class R>
void require_counts(R& res, const std::int64_t* counts, const Protect& protect,
                    const Positions<R::space>& positions, const RowLayout<R::space>& layout,
                    std::int64_t* held) {
  const RowLayout<> rows = layout.host();
  bool certain = true;
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    require_for_head(counts[h] >= 0 && counts[h] <= rows.rows(h), "counts", h, counts[h],
                     "in [0, rows of the head], rows =", rows.rows(h));
    certain = certain && most_protected(protect, rows.rows(h)) <= counts[h];
  }
  if (certain) return;
  protected_counts(res, positions, protect, layout, held);
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    require_for_head(held[h] <= counts[h], "protected rows", h, held[h],
                     "at most the rows that it keeps,", counts[h], ErrorKind::budget);
  }
}

/// select_rows, which calls rescore(layout) when it is known how many rows each head keeps and
/// before they are selected: scores may change then.
template <class R, class T, class A, class Rescore>
void select_rows_by(R& res, typename R::selection_type& kept, ScoreView<R::space> scores,
                    const KvView<T, R::space>& cache, bool comparable_across_heads,
                    const Budget& budget, const Protect& protect, const A& allocator,
                    const Rescore& rescore) {
  static_assert(BudgetAllocator<A, R>, "A models BudgetAllocator");
  require_scores(scores, cache.layout(), 1);
  require(cache.layout().is_uniform() || cache.layout().host().offsets() != kept.offsets().data(),
          "kept", "the selection whose offsets the cache view reads", "another one");
  require_valid(protect);
  if constexpr (R::space == MemorySpace::host) require_ascending_positions(cache);
  res.reset_nan_scores();  // the rest of the report is what the last scoring left there
  const std::int64_t heads = cache.heads();
  const Positions<R::space> positions(cache.positions());
  WorkspaceScope scope(res.host_workspace());
  auto* shares = scope.template carve<std::int64_t>("select_rows.shares", heads);
  auto* counts = scope.template carve<std::int64_t>("select_rows.counts", heads);
  auto* held = scope.template carve<std::int64_t>("select_rows.protected", heads);
  const bool counting = res.workspace().counting();
  std::vector<std::int64_t> counting_shares;
  if (counting) {
    // An allocator may read its shares while sizes are counted; the carves above can be mere
    // addresses then.
    counting_shares.resize(2 * static_cast<std::size_t>(heads));
    shares = counting_shares.data();
    counts = shares + heads;
  }
  budget.shares(cache.layout().host(), cache.row_bytes(), shares);
  const AllocationInput<R::space> input{scores, positions, protect, shares,
                                        comparable_across_heads};
  allocator.allocate(res, input, counts);
  if (counting) {
    protected_counts(res, positions, protect, cache.layout(), held);
    rescore(cache.layout());
    select_top(res, scores, positions, protect, cache.layout(), nullptr);
    return;
  }
  require_counts(res, counts, protect, positions, cache.layout(), held);
  res.make_room(kept, std::span<const std::int64_t>(counts, static_cast<std::size_t>(heads)));
  rescore(kept.layout());
  select_top(res, scores, positions, protect, kept.layout(), kept.indices_data());
  res.deliver_report(kept);
}

}  // namespace detail

/// Writes the policy's scores of all rows: what `evict` ranks by. Resets the report. Checks the
/// policy's parameters and evidence first.
template <class R, class P, class T>
void score_rows(R& res, const P& policy, const KvView<T, R::space>& cache,
                const Evidence<R::space>& evidence, ScoreView<R::space> scores) {
  static_assert(EvictionPolicy<P, R, std::remove_const_t<T>>, "P models EvictionPolicy");
  detail::require_evictable<R>(policy, cache, evidence);
  detail::require_scores(scores, cache.layout(), 1);
  res.reset_report();
  if (cache.layout().total() == 0) return;
  policy.score(res, KvView<const std::remove_const_t<T>, R::space>(cache), evidence, scores);
}

/// Selects by scores that the caller has: divides the budget with the allocator, then keeps the
/// best rows beside the protected ones. `cache` gives positions, row counts and the bytes of a row;
/// its rows are not read. `comparable_across_heads` says what a policy says of its scores. Throws
/// as evict_into does.
template <class R, class T, class A = UniformBudget>
void select_rows(R& res, typename R::selection_type& kept, ScoreView<R::space> scores,
                 const KvView<T, R::space>& cache, bool comparable_across_heads,
                 const Budget& budget, const Protect& protect = {}, const A& allocator = {}) {
  detail::select_rows_by(res, kept, scores, cache, comparable_across_heads, budget, protect,
                         allocator, [](const RowLayout<R::space>&) {});
}

/// Chooses the rows of every head that survive, without touching the cache: policy scores,
/// allocator divides the budget, the best rows beside the protected ones are selected, which a
/// TwoStagePolicy scores once more then. Writes to `kept`, whose capacity is reused; after a first
/// call of the same shapes nothing is allocated. Rows ascend by position; the selection's report
/// counts what went wrong inside (NaN scores, matrices without weight).
///
/// Throws invalid_argument (shapes, parameters, missing evidence), budget (protected rows do not
/// fit) or unsupported; `kept` and the cache are untouched then.
///
/// On a device the work is enqueued and not waited for, with two exceptions: an allocator that
/// reads scores (`GlobalBudget`), and protection by position over stored positions so large that
/// only counting them tells whether it fits.
template <class R, class P, class T, class A = UniformBudget>
void evict_into(R& res, typename R::selection_type& kept, const P& policy,
                const KvView<T, R::space>& cache, const Evidence<R::space>& evidence,
                const Budget& budget, const Protect& protect = {}, const A& allocator = {}) {
  using Element = std::remove_const_t<T>;
  constexpr bool two_stages = TwoStagePolicy<P, R, Element>;
  static_assert(EvictionPolicy<P, R, Element> || two_stages,
                "P models EvictionPolicy or TwoStagePolicy");
  // Before any work: a call that is refused does not even grow the workspace.
  require_valid(protect);
  detail::require_evictable<R>(policy, cache, evidence);
  WorkspaceScope scope(res.workspace());
  const ScoreView<R::space> scores{
      scope.template carve<float>("evict.scores", cache.layout().total()), cache.layout()};
  if constexpr (two_stages) {
    score_rows(res, policy.inner, cache, evidence, scores);
    const auto one_for_each_row = [&](const char* name) {
      return ScoreView<R::space>{scope.template carve<float>(name, cache.layout().total()),
                                 cache.layout()};
    };
    const ScoreView<R::space> first = one_for_each_row("evict.first_stage");
    const ScoreView<R::space> second = one_for_each_row("evict.second_stage");
    policy.prepare(res, KvView<const Element, R::space>(cache), evidence, protect, scores, first,
                   second);
    detail::select_rows_by(res, kept, scores, cache, policy.comparable_across_heads(), budget,
                           protect, allocator, [&](const RowLayout<R::space>& counts) {
                             policy.rescore(res, counts, first, second, scores);
                           });
  } else {
    score_rows(res, policy, cache, evidence, scores);
    select_rows(res, kept, scores, cache, policy.comparable_across_heads(), budget, protect,
                allocator);
  }
}

/// The same, returning the selection.
template <class R, class P, class T, class A = UniformBudget>
typename R::selection_type evict(R& res, const P& policy, const KvView<T, R::space>& cache,
                                 const Evidence<R::space>& evidence, const Budget& budget,
                                 const Protect& protect = {}, const A& allocator = {}) {
  typename R::selection_type kept;
  evict_into(res, kept, policy, cache, evidence, budget, protect, allocator);
  return kept;
}

}  // namespace kvevict
