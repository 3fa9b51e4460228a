// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/core/workspace.hpp"

namespace kvevict {

/// What every call gets first: the memory space it works in, scratch memory there and on the host,
/// the type of the selections it makes, and the report that ops count into.
/// * `workspace()`: scratch memory of the space.
/// * `host_workspace()`: scratch memory that the host reads and writes; the same for a host space.
/// * `make_room(kept, counts)`: gives a selection room for `counts[head]` rows of each head.
/// * `reset_report()`, `reset_nan_scores()`: zero the report, or its first counter.
/// * `deliver_report(kept)`: hands the report to a selection, where that needs no waiting.
template <class R>
concept Resources = requires(R& res, typename R::selection_type& kept,
                             std::span<const std::int64_t> counts) {
  { R::space } -> std::convertible_to<MemorySpace>;
  { res.workspace() } -> std::same_as<Workspace&>;
  { res.host_workspace() } -> std::same_as<Workspace&>;
  res.make_room(kept, counts);
  res.reset_report();
  res.reset_nan_scores();
  res.deliver_report(kept);
};

namespace detail {

/// Resources that do nothing: the archetype that concepts are checked against.
struct ArchetypeResources {
  static constexpr MemorySpace space = MemorySpace::host;
  using selection_type = Selection;
  Workspace& workspace();
  Workspace& host_workspace();
  void make_room(Selection&, std::span<const std::int64_t>);
  void reset_report();
  void reset_nan_scores();
  void deliver_report(Selection&);
};

template <class P>
concept NamedPolicy = requires(const P& policy) {
  { policy.name() } -> std::convertible_to<std::string_view>;
};

template <class P>
concept EvidencePolicy = requires(const P& policy) {
  { policy.needs() } -> std::same_as<EvidenceSet>;
};

template <class P>
concept ComparablePolicy = requires(const P& policy) {
  { policy.comparable_across_heads() } -> std::same_as<bool>;
};

template <class P, class R, class T>
concept ScoringPolicy = requires(const P& policy, R& res, const KvView<const T, R::space>& cache,
                                 const Evidence<R::space>& evidence, ScoreView<R::space> scores) {
  { policy.score(res, cache, evidence, scores) } -> std::same_as<void>;
};

}  // namespace detail

/// A way to score cached rows. A policy is an immutable value: published parameters with their
/// defaults, copyable and comparable, one object for all layers, element types and devices. What a
/// run accumulates lives in a separate state.
///
/// * `name()`: as published.
/// * `needs()`: the evidence without which `score` cannot work; may depend on the parameters.
/// * `comparable_across_heads()`: whether one threshold over several heads is meaningful; global
///   allocators ask. Attention weights are comparable, norms and leverages are not.
/// * `score(res, cache, evidence, scores)`: writes every score; higher = keep. Promises, checked by
///   the contract suite: independent of budget and protection; independent of the other heads (a
///   head alone scores as in a batch, bitwise); deterministic; the cache is only read; the same for
///   any number of threads; asynchronous where the resources are. Called with a counting workspace
///   (`res.workspace().counting()`) it carves what it needs and computes nothing: ops do so by
///   themselves, a loop of a policy's own returns before it touches scores.
/// * `validate()` (optional): throws invalid_argument for parameters outside their bounds.
template <class P, class R = detail::ArchetypeResources, class T = float>
concept EvictionPolicy =
    std::copyable<P> && std::equality_comparable<P> && Resources<R> && detail::NamedPolicy<P> &&
    detail::EvidencePolicy<P> && detail::ComparablePolicy<P> && detail::ScoringPolicy<P, R, T>;

/// A policy that chooses rows in two stages, of which the second begins when the budget has been
/// divided. It holds an EvictionPolicy, `inner`, by whose scores that is done, and has the
/// functions of one but `score`. Instead:
///
/// * `prepare(res, cache, evidence, protect, scores, first, second)`: writes two numbers for each
///   row beside the inner scores, which it only reads. What can be refused is refused here.
/// * `rescore(res, kept, first, second, scores)`: turns the inner scores into those by which a head
///   that keeps kept.rows(head) rows is selected. What is promised of scores holds for these, but
///   that they depend on budget and protection.
template <class P, class R = detail::ArchetypeResources, class T = float>
concept TwoStagePolicy = std::copyable<P> && std::equality_comparable<P> && Resources<R> &&
    detail::NamedPolicy<P> && detail::EvidencePolicy<P> && detail::ComparablePolicy<P> &&
    EvictionPolicy<decltype(P::inner), R, T> &&
    requires(const P& policy, R& res, const KvView<const T, R::space>& cache,
             const Evidence<R::space>& evidence, const Protect& protect,
             const RowLayout<R::space>& kept, ScoreView<R::space> scores) {
  { policy.prepare(res, cache, evidence, protect, scores, scores, scores) } -> std::same_as<void>;
  { policy.rescore(res, kept, scores, scores, scores) } -> std::same_as<void>;
};

/// What an allocator divides among heads.
template <MemorySpace S = MemorySpace::host>
struct AllocationInput {
  ScoreView<S> scores;                   ///< of every row
  Positions<S> positions;                ///< of the rows, for protection by position
  Protect protect;                       ///< rows that every head keeps
  const std::int64_t* shares = nullptr;  ///< [heads] rows that the budget gives each head; host
  bool comparable_across_heads = false;  ///< what the policy says of its scores
};

/// A way to divide the budget among heads: writes the number of rows that each head keeps, to host
/// memory. An allocator that reads scores on a device waits for them.
/// Promises: at least the protected rows and at most the rows of each head, and in total exactly
/// the sum of the shares; otherwise it throws a budget error. While `res.workspace().counting()`,
/// scores are not there: carve what is needed and return.
template <class A, class R = detail::ArchetypeResources>
concept BudgetAllocator = std::copyable<A> &&
    requires(const A& allocator, R& res, const AllocationInput<R::space>& input,
             std::int64_t* counts) {
  { allocator.allocate(res, input, counts) } -> std::same_as<void>;
};

}  // namespace kvevict
