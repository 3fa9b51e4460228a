// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/query_logits.hpp"
#include "kvevict/ops/row_weighting.hpp"
#include "kvevict/ops/softmax.hpp"
#include "kvevict/policies/value_norm.hpp"

namespace kvevict {

/// Attention that a Gaussian future query pays on average (arXiv 2510.00636). Per query head
///   z_i = mu . k_i / sqrt(d) + k_i^T Lambda k_i / (2 d),
///   a   = softmax of z over the rows after `skip_first`:
/// the logarithm of E exp(q . k / sqrt(d)); score_i = (mean over the group of a_i + epsilon) *
/// |v_i|. The first `skip_first` rows get the largest score of their head; with no more rows than
/// that all scores are equal. `log_domain` ranks by the logarithm of the same score: heads so sharp
/// that weights underflow to ties keep their order. 2 N d^2 flops per query head for a full
/// covariance, 2 N d else.
struct ExpectedAttention {
  Covariance covariance = Covariance::full;
  ValueNorm value_norm = ValueNorm::norm;
  Epsilon epsilon = Epsilon::absolute(0.0);  ///< acts with a value norm only
  std::int64_t skip_first = 4;
  GroupReduction reduction = GroupReduction::mean;
  bool log_domain = false;

  /// The paper's and kvpress' class defaults: full covariance, value norm, epsilon 0.
  static ExpectedAttention published() { return {}; }
  /// kvpress' leaderboard setting: epsilon 0.01.
  static ExpectedAttention leaderboard() { return {.epsilon = Epsilon::absolute(0.01)}; }

  std::string_view name() const { return "ExpectedAttention"; }
  EvidenceSet needs() const {
    EvidenceSet needs = evidence_for(covariance);
    if (value_norm == ValueNorm::output_projection) needs |= EvidenceKind::output_projection;
    return needs;
  }
  bool comparable_across_heads() const { return false; }

  void validate() const {
    require(skip_first >= 0, "skip_first", skip_first, ">=", 0);
    require(epsilon.value >= 0.0 && epsilon.value < 1e30, "epsilon", epsilon.value,
            "finite and >=", 0);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    const QueryStatsView<R::space>& stats = *evidence.query_stats;
    const std::int64_t group =
        detail::require_group(stats.mean.shape[0], cache.heads(), "query_stats.mean.heads");
    const float dim = static_cast<float>(cache.keys().dim());
    const auto domain = log_domain ? ReductionDomain::logarithm : ReductionDomain::linear;
    WorkspaceScope scope(res.workspace());
    const RowLayout<R::space> per_query_head = cache.layout().repeated(group);
    const ScoreView<R::space> weights{
        scope.carve<float>("ExpectedAttention.weights", per_query_head.total()), per_query_head};
    query_logits(res, cache.keys(), stats.mean, 1.0f / std::sqrt(dim), weights);
    if (covariance != Covariance::none) {
      quadratic_form(res, cache.keys(), stats, covariance, 0.5f / dim, true, weights);
    }
    softmax(res, weights, skip_first,
            log_domain ? SoftmaxOutput::log_probability : SoftmaxOutput::probability);
    if (value_norm == ValueNorm::output_projection) {
      weight_by_norm(res, cache.values(), evidence.output_projection->factors, epsilon, domain,
                     weights);
    }
    reduce_group(res, weights, reduction, domain, scores);
    if (value_norm == ValueNorm::norm) {
      weight_by_norm(res, cache.values(), MatrixBatchView<const float, R::space>{}, epsilon, domain,
                     scores);
    }
    raise_rows(res, cache.positions(), RaisedRows<R::space>{skip_first, {}}, scores);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("published", published());
    visit("leaderboard", leaderboard());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("covariance", self.covariance, "of the future queries");
    visit("value_norm", self.value_norm, "what multiplies the attention");
    visit("epsilon", self.epsilon, "added to the attention before the value norm");
    visit("skip_first", self.skip_first, "rows left out of the softmax and ranked first");
    visit("reduction", self.reduction, "over the query heads of a group");
    visit("log_domain", self.log_domain, "rank by logarithms, without underflow");
  }

  friend bool operator==(const ExpectedAttention&, const ExpectedAttention&) = default;
};

}  // namespace kvevict
