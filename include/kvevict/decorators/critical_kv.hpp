// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "kvevict/decorators/inner_policy.hpp"
#include "kvevict/decorators/value_size.hpp"
#include "kvevict/ops/score_combination.hpp"
#include "kvevict/ops/score_marks.hpp"
#include "kvevict/ops/score_order.hpp"

namespace kvevict {

/// CriticalKV (arXiv 2502.03805) around a policy whose scores are not negative, as attention is: a
/// head that is to keep n rows keeps
///   first the trunc(first_stage * n) best by the inner score, protected rows before all others,
///   then the best of the rest by (inner_i + epsilon) * size_i,
/// size_i = |W_O v_i|_1 as published. How many rows a head keeps, any allocator says, which divides
/// by the inner scores: with AdaptiveBudget it is the published combination with AdaKV.
///
/// The order of rows depends on how many a head keeps. So this is no EvictionPolicy, whose scores
/// do not, but a TwoStagePolicy: `evict`, `evict_in_steps` and DecodeEvictor take it; what scores
/// rows without a budget, such as `score_rows` and policies that hold policies, does not. There,
/// ValueWeighted has a first stage of a fixed part of all rows.
///
/// Needs the output projection itself for `projected_sum`, factors [query_head][hidden][dim]; see
/// ValueSize. Cost beside the inner policy's: that of ValueWeighted, with a sort of each head.
/// Throws unsupported for heads above 2^24 rows.
template <class P>
struct CriticalKV {
  P inner = {};
  ValueSize size = ValueSize::projected_sum;
  double epsilon = 1e-4;     ///< added to the inner scores
  double first_stage = 0.5;  ///< part of the rows that a head keeps which the inner score chooses

  std::string_view name() const { return "CriticalKV"; }
  constexpr EvidenceSet needs() const {
    EvidenceSet needs = inner.needs();
    if (size != ValueSize::norm) needs |= EvidenceKind::output_projection;
    return needs;
  }
  /// Of the inner scores, by which a budget is divided.
  bool comparable_across_heads() const { return inner.comparable_across_heads(); }

  void validate() const {
    require(epsilon >= 0.0 && std::isfinite(epsilon), "epsilon", epsilon, "finite and >=", 0);
    require(first_stage >= 0.0 && first_stage <= 1.0, "first_stage", first_stage, "in [0, 1]");
    detail::validate_inner(inner);
  }

  /// Before the budget is divided: the ranks of the rows by their inner scores, protected rows
  /// first, and the sizes of their values.
  template <class R, class T>
  void prepare(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
               const Protect& protect, ScoreView<R::space> scores, ScoreView<R::space> ranks,
               ScoreView<R::space> sizes) const {
    reduce_group(res, scores, GroupReduction::mean, ReductionDomain::linear, sizes);  // a copy
    mark_protected(res, Positions<R::space>(cache.positions()), protect, ranks);
    lift_marked(res, ranks, sizes);
    rank_scores(res, sizes, ranks);
    detail::write_value_sizes(res, size, cache, evidence, sizes);
  }

  /// Turns the inner scores into those by which heads that keep kept.rows(h) rows are selected. In
  /// place, with what `prepare` wrote.
  template <class R>
  void rescore(R& res, const RowLayout<R::space>& kept, ScoreView<R::space> ranks,
               ScoreView<R::space> sizes, ScoreView<R::space> scores) const {
    mark_best(res, ranks, first_stage, kept, ranks);
    multiply_scores(res, sizes, epsilon, false, scores);
    lift_marked(res, ranks, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("size", self.size, "how large a value is");
    visit("epsilon", self.epsilon, "added to the inner scores");
    visit("first_stage", self.first_stage, "part of the kept rows that the inner score chooses");
    detail::visit_inner(self.inner, "inner.", visit);
  }

  friend bool operator==(const CriticalKV&, const CriticalKV&) = default;
};

}  // namespace kvevict
