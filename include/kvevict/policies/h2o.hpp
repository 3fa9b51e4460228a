// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/attention_statistic.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/mass.hpp"

namespace kvevict {

/// What H2O's state makes of the attention that a row received.
enum class Accumulation {
  sum,   ///< the sum over all observed queries (published)
  mean,  ///< divided by the number of observed queries that could see the row (kvpress'
         ///< ObservedAttention)
  decay  ///< the sum with older queries weighed down by decay^age
};

inline std::span<const EnumName<Accumulation>> enum_names(Accumulation) {
  static constexpr EnumName<Accumulation> names[] = {
      {Accumulation::sum, "sum"}, {Accumulation::mean, "mean"}, {Accumulation::decay, "decay"}};
  return names;
}

/// Heavy hitters (arXiv 2306.14048): score_i = attention that row i has received, accumulated over
/// the queries observed so far and averaged over the group's query heads. The accumulator lives in
/// a `State`:
///
///   H2O policy;
///   H2O::State state(policy);
///   state.observe(res, cache, queries);  // after every chunk or step, its rows included
///   evict(res, policy, cache, {.attention_mass = state.mass()}, budget, {.recent = ...});
///   state.compact(kept);                 // together with the cache
///
/// The published protection is the most recent half of the budget.
struct H2O {
  Accumulation accumulation = Accumulation::sum;
  double decay = 0.99;  ///< per query, for Accumulation::decay

  class State;

  static H2O published() { return {}; }
  /// kvpress' ObservedAttention: the average over the queries that could see the row.
  static H2O observed_attention() { return {.accumulation = Accumulation::mean}; }

  std::string_view name() const { return "H2O"; }
  EvidenceSet needs() const { return {EvidenceKind::attention_mass}; }
  bool comparable_across_heads() const { return false; }

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

/// The attention mass of every cached row, in host memory: one double and one counter for each.
class H2O::State {
 public:
  explicit State(const H2O& policy) : policy_(policy) { policy.validate(); }

  /// Adds the attention of the window's queries (post-RoPE, each sees the rows at its position and
  /// below) to the rows of `cache`, which holds the rows of earlier calls, compacted as the state
  /// was, and any number of new rows behind them in each head: new rows start with what this call
  /// gives them. Works in blocks of queries, never N x N. Throws invalid_argument when a head holds
  /// fewer rows than the state knows of.
  template <class R, class T>
  void observe(R& res, const KvView<T, R::space>& cache, const QueryWindow<R::space>& window) {
    const RowLayout<>& layout = cache.layout();
    require(heads_.empty() || static_cast<std::int64_t>(heads_.size()) == cache.heads(),
            "cache.heads", cache.heads(), "equal to those of the state,", heads_.size());
    for (std::size_t h = 0; h < heads_.size(); ++h) {
      const std::int64_t rows = layout.rows(static_cast<std::int64_t>(h));
      require(rows >= static_cast<std::int64_t>(heads_[h].size()), "cache.rows", rows,
              "at least those of the state,", heads_[h].size());
    }
    const std::int64_t group =
        detail::require_group(window.queries.heads(), cache.heads(), "query_window.heads");
    WorkspaceScope scope(res.workspace());
    const RowLayout<> per_query_head = layout.repeated(group);
    const ScoreView<> weights{scope.carve<float>("H2O.weights", per_query_head.total()),
                              per_query_head};
    const ScoreView<> step{scope.carve<float>("H2O.step", layout.total()), layout};
    const bool decaying = policy_.accumulation == Accumulation::decay;
    const float per_query = decaying ? static_cast<float>(policy_.decay) : 1.0f;
    attention_statistic(res, cache.keys(), Positions<>(cache.positions()),
                        ProbeQueries<>{window.queries, window.positions, ProbeMask::by_position},
                        1.0f / std::sqrt(static_cast<float>(cache.keys().dim())),
                        AttentionStatistic::sum, weights, per_query);
    reduce_group(res, weights, GroupReduction::mean, ReductionDomain::linear, step);
    add(step, Positions<>(cache.positions()), window,
        decaying ? std::pow(policy_.decay, static_cast<double>(window.queries.count())) : 1.0);
  }

  /// The mass as evidence for `H2O::score`; refers to this object until the next call that changes
  /// it.
  AttentionMass<> mass() {
    offsets_.assign(1, 0);
    packed_.clear();
    for (const std::vector<Row>& head : heads_) {
      for (const Row& row : head) packed_.push_back(static_cast<float>(value(row)));
      offsets_.push_back(static_cast<std::int64_t>(packed_.size()));
    }
    return {packed_.data(),
            RowLayout<>::ragged(offsets_.data(), static_cast<std::int64_t>(heads_.size()))};
  }

  /// Drops the rows that the selection does not keep. Throws invalid_argument, and changes nothing,
  /// when the selection is not one of this state's rows.
  void compact(const Selection& kept) {
    std::vector<std::int64_t> offsets = {0};
    for (const auto& head : heads_) {
      offsets.push_back(offsets.back() + static_cast<std::int64_t>(head.size()));
    }
    require_valid(kept.view(),
                  RowLayout<>::ragged(offsets.data(), static_cast<std::int64_t>(heads_.size())));
    for (std::size_t h = 0; h < heads_.size(); ++h) {
      std::size_t next = 0;
      for (std::int32_t i : kept.head(static_cast<std::int64_t>(h))) {
        heads_[h][next++] = heads_[h][static_cast<std::size_t>(i)];
      }
      heads_[h].resize(next);
    }
  }

  /// Forgets everything: for a new sequence.
  void reset() { heads_.clear(); }

 private:
  struct Row {
    double mass = 0.0;
    std::int64_t seen = 0;  // observed queries that could see the row
  };

  double value(const Row& row) const {
    if (policy_.accumulation != Accumulation::mean) return row.mass;
    return row.seen > 0 ? row.mass / static_cast<double>(row.seen) : 0.0;
  }

  void add(const ScoreView<>& step, const Positions<>& positions, const QueryWindow<>& window,
           double kept_share) {
    heads_.resize(static_cast<std::size_t>(step.layout.heads()));
    for (std::int64_t h = 0; h < step.layout.heads(); ++h) {
      std::vector<Row>& head = heads_[static_cast<std::size_t>(h)];
      const std::int64_t rows = step.layout.rows(h);
      head.resize(static_cast<std::size_t>(rows));
      const auto row_positions = positions.row(h, step.layout);
      std::int64_t earlier = 0;  // queries before the row, which could not see it; both ascend
      for (std::int64_t i = 0; i < rows; ++i) {
        while (earlier < window.queries.count() &&
               window.positions.at(h, earlier) < row_positions[i]) {
          ++earlier;
        }
        Row& row = head[static_cast<std::size_t>(i)];
        row.mass = row.mass * kept_share + static_cast<double>(step.head(h)[i]);
        row.seen += window.queries.count() - earlier;
      }
    }
  }

  H2O policy_;
  std::vector<std::vector<Row>> heads_;
  std::vector<std::int64_t> offsets_;
  std::vector<float> packed_;
};

}  // namespace kvevict
