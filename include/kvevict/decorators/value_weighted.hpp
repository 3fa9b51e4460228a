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

/// Weights scores by the size of the values: score_i = (inner_i + epsilon) * size_i. Meaningful for
/// inner scores that are not negative, as attention is; of scores that may be, `from_lowest`
/// subtracts the head's lowest first, without which large values of negative scores rank last.
///
/// In two stages, as CriticalKV (arXiv 2502.03805) selects: the first trunc(first_stage * rows)
/// rows by the inner score rank before all others, and the weighted score ranks the rest. The
/// published half of the budget is `critical(inner, kept)` where every head keeps the same part; a
/// policy does not know its budget. For budgets that differ from head to head, and while decoding,
/// there is CriticalKV.
///
/// `projected` reads the factors of the output projection, or the projection itself;
/// `projected_sum` needs the projection itself, factors [query_head][hidden][dim], since a factor
/// preserves |W_O v|_2 only. Cost beside the inner policy's: one read of V, and 2 N dim flops for
/// each row of the matrices; a sort of each head with a first stage.
template <class P>
struct ValueWeighted {
  P inner = {};
  ValueSize size = ValueSize::norm;
  double epsilon = 1e-4;     ///< added to the inner scores
  bool from_lowest = false;  ///< inner scores count from the head's lowest
  double first_stage = 0.0;  ///< part of a head's rows that the inner score alone ranks first

  /// CriticalKV as published for a budget that keeps the part `kept` of the rows.
  static ValueWeighted critical(const P& inner, double kept) {
    return {inner, ValueSize::projected_sum, 1e-4, false, 0.5 * kept};
  }

  std::string_view name() const { return "ValueWeighted"; }
  constexpr EvidenceSet needs() const {
    EvidenceSet needs = inner.needs();
    if (size != ValueSize::norm) needs |= EvidenceKind::output_projection;
    return needs;
  }
  /// Sizes of values differ from head to head.
  bool comparable_across_heads() const { return false; }

  void validate() const {
    require(epsilon >= 0.0 && std::isfinite(epsilon), "epsilon", epsilon, "finite and >=", 0);
    require(first_stage >= 0.0 && first_stage <= 1.0, "first_stage", first_stage, "in [0, 1]");
    detail::validate_inner(inner);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    inner.score(res, cache, evidence, scores);
    WorkspaceScope scope(res.workspace());
    const std::int64_t total = cache.layout().total();
    const ScoreView<R::space> sizes{scope.template carve<float>("ValueWeighted.sizes", total),
                                    cache.layout()};
    detail::write_value_sizes(res, size, cache, evidence, sizes);
    const ScoreView<R::space> marks{
        scope.template carve<float>("ValueWeighted.marks", first_stage > 0.0 ? total : 0),
        cache.layout()};
    if (first_stage > 0.0) {
      rank_scores(res, scores, marks);
      mark_best(res, marks, first_stage, scores.layout, marks);
    }
    multiply_scores(res, sizes, epsilon, from_lowest, scores);
    if (first_stage > 0.0) lift_marked(res, marks, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("size", self.size, "how large a value is");
    visit("epsilon", self.epsilon, "added to the inner scores");
    visit("from_lowest", self.from_lowest, "inner scores count from the head's lowest");
    visit("first_stage", self.first_stage, "part of the rows that the inner score ranks first");
    detail::visit_inner(self.inner, "inner.", visit);
  }

  friend bool operator==(const ValueWeighted&, const ValueWeighted&) = default;
};

}  // namespace kvevict
