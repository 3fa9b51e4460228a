// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kvevict/core/array.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/core/layout_storage.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/core/state_blob.hpp"
#include "kvevict/ops/attention_statistic.hpp"
#include "kvevict/ops/gather.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/mass.hpp"
#include "kvevict/ops/running_mass.hpp"

namespace kvevict {

/// What H2O's state makes of the attention that a row received.
enum class Accumulation {
  sum,    ///< the sum over all observed queries (published)
  mean,   ///< divided by the number of observed queries that could see the row (kvpress'
          ///< ObservedAttention)
  decay,  ///< the sum with older queries weighed down by decay^age
  max     ///< the largest weight of any observed query of the group (KVzip's, of a replay)
};

inline std::span<const EnumName<Accumulation>> enum_names(Accumulation) {
  static constexpr EnumName<Accumulation> names[] = {{Accumulation::sum, "sum"},
                                                     {Accumulation::mean, "mean"},
                                                     {Accumulation::decay, "decay"},
                                                     {Accumulation::max, "max"}};
  return names;
}

/// Heavy hitters (arXiv 2306.14048): score_i = attention that row i has received, accumulated over
/// the queries observed so far and averaged over the group's query heads (with Accumulation::max
/// the largest of both). The accumulator lives in
/// a `State` (in device memory: `BasicState<MemorySpace::device>`):
///
///   H2O policy;
///   H2O::State state(policy);
///   state.observe(res, cache, queries);  // after every chunk or step, its rows included
///   evict(res, policy, cache, {.attention_mass = state.mass()}, budget, {.recent = ...});
///   state.compact(res, kept);            // together with the cache
///
/// The published protection is the most recent half of the budget: `published_protection(rows)`.
struct H2O {
  Accumulation accumulation = Accumulation::sum;
  double decay = 0.99;  ///< per query, for Accumulation::decay

  template <MemorySpace S>
  class BasicState;
  using State = BasicState<MemorySpace::host>;

  static H2O published() { return {}; }
  /// kvpress' ObservedAttention: the average over the queries that could see the row.
  static H2O observed_attention() { return {.accumulation = Accumulation::mean}; }

  /// Heavy hitters take half of the rows that a head keeps, the most recent ones the other half.
  static Protect published_protection(std::int64_t kept_rows) { return {.recent = kept_rows / 2}; }

  std::string_view name() const { return "H2O"; }
  EvidenceSet needs() const { return {EvidenceKind::attention_mass}; }
  /// The largest weights are: no sum that grows with a head's queries.
  bool comparable_across_heads() const { return accumulation == Accumulation::max; }

  void validate() const { require(decay > 0.0 && decay <= 1.0, "decay", decay, "in (0, 1]"); }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>&, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    copy_mass(res, *evidence.attention_mass, scores);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("published", published());
    visit("observed_attention", observed_attention());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("accumulation", self.accumulation, "what is made of the attention received");
    visit("decay", self.decay, "weight of a query against the next one, for decay");
  }

  friend bool operator==(const H2O&, const H2O&) = default;
};

/// The attention mass of every cached row, in memory space S: 20 bytes for each, twice, since a
/// call writes what it changes to the other of two buffers. That is little beside the keys which
/// the same call reads.
template <MemorySpace S>
class H2O::BasicState {
 public:
  explicit BasicState(const H2O& policy) : policy_(policy) { policy.validate(); }

  /// Adds the attention of the window's queries (post-RoPE, each sees the rows at its position and
  /// below) to the rows of `cache`, which holds the rows of earlier calls, compacted as the state
  /// was, and any number of new rows behind them in each head: new rows start with what this call
  /// gives them. Works in blocks of queries, never N x N. Throws invalid_argument when a head holds
  /// fewer rows than the state knows of.
  template <class R, class T>
  requires(R::space == S) void observe(R& res, const KvView<T, S>& cache,
                                       const QueryWindow<S>& window) {
    const RowLayout<S>& layout = cache.layout();
    require_continues(layout.host());
    const std::int64_t group =
        detail::require_group(window.queries.heads(), cache.heads(), "query_window.heads");
    WorkspaceScope scope(res.workspace());
    const RowLayout<S> per_query_head = layout.repeated(group);
    const ScoreView<S> weights{scope.template carve<float>("H2O.weights", per_query_head.total()),
                               per_query_head};
    const ScoreView<S> received{scope.template carve<float>("H2O.received", layout.total()),
                                layout};
    const bool decaying = policy_.accumulation == Accumulation::decay;
    const bool largest = policy_.accumulation == Accumulation::max;
    const float per_query = decaying ? static_cast<float>(policy_.decay) : 1.0f;
    const Positions<S> positions(cache.positions());
    attention_statistic(res, cache.keys(), positions,
                        ProbeQueries<S>{window.queries, window.positions, ProbeMask::by_position},
                        1.0f / std::sqrt(static_cast<float>(cache.keys().dim())),
                        largest ? AttentionStatistic::maximum : AttentionStatistic::sum, weights,
                        per_query);
    reduce_group(res, weights, largest ? GroupReduction::max : GroupReduction::mean,
                 ReductionDomain::linear, received);
    if (res.workspace().counting()) return;
    MassStep<S> step{received, positions, window.positions, window.queries.count()};
    if (decaying) step.kept_share = std::pow(policy_.decay, static_cast<double>(step.queries));
    step.mean = policy_.accumulation == Accumulation::mean;
    step.largest = largest;
    next_.reshape(res, layout);
    accumulate_mass(res, now_.view(), step, next_.view());
    std::swap(now_, next_);
  }

  /// Takes back the last call of `observe`, when nothing was called since.
  void undo_observe() { std::swap(now_, next_); }

  /// The mass as evidence for `H2O::score`; refers to this object until the next call that changes
  /// it.
  AttentionMass<S> mass() const { return {now_.value.data(), now_.layout.view()}; }

  /// Drops the rows that the selection does not keep. Throws invalid_argument, and changes nothing,
  /// when the selection is not one of this state's rows; indices on a device are not read back, as
  /// in kvevict::compact.
  template <class R>
  requires(R::space == S) void compact(R& res, const typename R::selection_type& kept) {
    const SelectionView<S> selection = kept.view();
    detail::require_compactable(selection, now_.layout.view());
    next_.reshape(res, selection.layout);
    gather_mass(res, selection, now_.view(), next_.view());
    std::swap(now_, next_);
  }

  /// Forgets everything: for a new sequence.
  void reset() { now_.layout.clear(); }

  /// A blob (core/state_blob.hpp) that `restore` reads, there or elsewhere. Waits for a device.
  template <class R>
  requires(R::space == S) std::vector<std::byte> save(R& res)
  const { return detail::save_state(res, *this, "H2O"); }
  /// Takes the place of the mass. Throws invalid_argument for a blob that is damaged or of another
  /// accumulation, unsupported for another version; nothing is changed then.
  template <class R>
  requires(R::space == S) void restore(R& res, std::span<const std::byte> blob) {
    detail::restore_state(res, blob, "H2O", BasicState(policy_), *this);
  }

  /// The same as part of a larger blob. `read` leaves an object that it fails for in no particular
  /// state.
  template <class R>
  requires(R::space == S) void write(R& res, StateWriter& to) const {
    to.text(format_parameter(policy_.accumulation));
    to.number(policy_.decay);
    const RowLayout<> rows = now_.layout.view().host();
    to.integer(rows.heads());
    for (std::int64_t h = 0; h < rows.heads(); ++h) to.integer(rows.rows(h));
    if (rows.total() == 0) return;
    to.array(now_.mass.download(res).data(), rows.total());
    to.array(now_.seen.download(res).data(), rows.total());
    to.array(now_.value.download(res).data(), rows.total());
  }
  template <class R>
  requires(R::space == S) void read(R& res, StateReader& from) {
    from.expect("H2O.accumulation", format_parameter(policy_.accumulation));
    from.expect("H2O.decay", policy_.decay);
    std::vector<std::int64_t> offsets = {0};
    for (std::int64_t left = from.integer("H2O.heads", 0, INT32_MAX); left > 0; --left) {
      offsets.push_back(offsets.back() + from.integer("H2O.rows", 0, max_rows_per_head));
    }
    const std::int64_t total = offsets.back();
    const auto heads = static_cast<std::int64_t>(offsets.size()) - 1;
    now_.layout.assign(res, offsets.data(), heads);
    if (total == 0) return;
    now_.mass.assign(res, from.array<double>("H2O.mass.size", total).data(), total);
    now_.seen.assign(res, from.array<std::int64_t>("H2O.seen.size", total).data(), total);
    now_.value.assign(res, from.array<float>("H2O.value.size", total).data(), total);
  }

 private:
  struct Rows {
    Array<double, S> mass;
    Array<std::int64_t, S> seen;
    Array<float, S> value;
    LayoutStorage<S> layout;

    template <class R>
    void reshape(R& res, const RowLayout<S>& rows) {
      layout.assign(res, rows);
      mass.resize(res, rows.total());
      seen.resize(res, rows.total());
      value.resize(res, rows.total());
    }
    RunningMass<S> view() { return {mass.data(), seen.data(), value.data(), layout.view()}; }
  };

  void require_continues(const RowLayout<>& rows) const {
    const RowLayout<> known = now_.layout.view().host();
    if (known.heads() == 0) return;
    require(rows.heads() == known.heads(), "cache.heads", rows.heads(),
            "equal to those of the state,", known.heads());
    for (std::int64_t h = 0; h < known.heads(); ++h) {
      require(rows.rows(h) >= known.rows(h), "cache.rows", rows.rows(h),
              "at least those of the state,", known.rows(h));
    }
  }

  H2O policy_;
  Rows now_;
  Rows next_;
};

}  // namespace kvevict
