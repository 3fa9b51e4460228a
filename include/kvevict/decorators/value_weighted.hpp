// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvevict/decorators/inner_policy.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/projected_norms.hpp"
#include "kvevict/ops/row_norms.hpp"
#include "kvevict/ops/score_combination.hpp"
#include "kvevict/ops/score_marks.hpp"
#include "kvevict/ops/score_order.hpp"

namespace kvevict {

/// The size of a value.
enum class ValueSize {
  norm,           ///< |v|_2
  projected,      ///< |W_O v|_2, mean over the query heads of the group
  projected_sum,  ///< |W_O v|_1, mean over the query heads of the group
};

inline std::span<const EnumName<ValueSize>> enum_names(ValueSize) {
  static constexpr EnumName<ValueSize> names[] = {{ValueSize::norm, "norm"},
                                                  {ValueSize::projected, "projected"},
                                                  {ValueSize::projected_sum, "projected_sum"}};
  return names;
}

/// Weights scores by the size of the values: score_i = (inner_i + epsilon) * size_i. Meaningful for
/// inner scores that are not negative, as attention is; of scores that may be, `from_lowest`
/// subtracts the head's lowest first, without which large values of negative scores rank last.
///
/// The two-stage form of CriticalKV (arXiv 2502.03805): the first trunc(first_stage * rows) rows by
/// the inner score rank before all others, and the weighted score ranks the rest. The published
/// half of the budget is `critical(inner, kept)`; a policy does not know its budget.
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
    write_sizes(res, cache, evidence, sizes);
    const ScoreView<R::space> marks{
        scope.template carve<float>("ValueWeighted.marks", first_stage > 0.0 ? total : 0),
        cache.layout()};
    if (first_stage > 0.0) {
      rank_scores(res, scores, marks);
      mark_best(res, marks, first_stage, marks);
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

 private:
  template <class R, class T>
  void write_sizes(R& res, const KvView<const T, R::space>& cache,
                   const Evidence<R::space>& evidence, ScoreView<R::space> sizes) const {
    if (size == ValueSize::norm) return row_norms(res, cache.values(), 1.0f, sizes);
    const MatrixBatchView<const float, R::space>& projections = evidence.output_projection->factors;
    const std::int64_t group =
        detail::require_group(projections.shape[0], cache.heads(), "output_projection.heads");
    const RowLayout<R::space> per_query_head = cache.layout().repeated(group);
    WorkspaceScope scope(res.workspace());
    const ScoreView<R::space> norms{
        scope.template carve<float>("ValueWeighted.norms", per_query_head.total()), per_query_head};
    projected_norms(
        res, cache.values(), projections,
        size == ValueSize::projected ? ProjectedNorm::euclidean : ProjectedNorm::absolute_sum,
        norms);
    reduce_group(res, norms, GroupReduction::mean, ReductionDomain::linear, sizes);
  }
};

}  // namespace kvevict
