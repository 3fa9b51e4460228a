// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/attention_statistic.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/policies/window_importance.hpp"

namespace kvevict {

/// Token omission via attention (arXiv 2401.06104): score_i = softmax weight that the last query
/// pays to row i, mask by position, reduced over the group. Rows that the query does not see get 0.
/// Reads K once, 2 N d flops for each query head; memory O(N).
///
/// The paper and kvpress average over all heads of a layer and keep the same rows in each; here
/// every KV head has the average of its own group, and the mean of these over a layer is theirs.
/// kvpress also forces the last row, the paper does not: protect it with `recent = 1` for that.
struct TOVA {
  GroupReduction reduction = GroupReduction::mean;

  std::string_view name() const { return "TOVA"; }
  EvidenceSet needs() const { return {EvidenceKind::query_window}; }
  /// Weights of one query: those of every query head sum to 1.
  bool comparable_across_heads() const { return true; }
  void validate() const {}

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    const QueryWindow<R::space>& given = *evidence.query_window;
    require(given.queries.count() >= 1, "query_window.count", given.queries.count(), ">=", 1);
    const ProbeQueries<R::space> last = detail::last_queries(given, 1);
    const std::int64_t group =
        detail::require_group(given.queries.heads(), cache.heads(), "query_window.heads");
    const float scale = 1.0f / std::sqrt(static_cast<float>(cache.keys().dim()));
    WorkspaceScope scope(res.workspace());
    const RowLayout<R::space> per_query_head = cache.layout().repeated(group);
    const ScoreView<R::space> weights{scope.carve<float>("TOVA.weights", per_query_head.total()),
                                      per_query_head};
    attention_statistic(res, cache.keys(), cache.positions(), last, scale, AttentionStatistic::mean,
                        weights);
    reduce_group(res, weights, reduction, ReductionDomain::linear, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("reduction", self.reduction, "over the query heads of a group");
  }

  friend bool operator==(const TOVA&, const TOVA&) = default;
};

}  // namespace kvevict
