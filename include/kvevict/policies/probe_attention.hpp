// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/attention_statistic.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/row_weighting.hpp"
#include "kvevict/policies/value_norm.hpp"

namespace kvevict {

/// What ProbeAttention takes of a row's attention weights.
enum class ProbeStatistic {
  mean,
  rms,  ///< root of the mean square
  max
};

inline std::span<const EnumName<ProbeStatistic>> enum_names(ProbeStatistic) {
  static constexpr EnumName<ProbeStatistic> names[] = {
      {ProbeStatistic::mean, "mean"}, {ProbeStatistic::rms, "rms"}, {ProbeStatistic::max, "max"}};
  return names;
}

/// Attention that probe queries pay: score_j = mean, root mean square or maximum of p_ij over the
/// probes i of all query heads of the group, p_i = softmax(q_i . k / sqrt(d)) over the rows that
/// the probe sees. A value norm multiplies each query head's statistic by |v_j| or |W_O v_j|; it
/// was measured not to help, and its scores are no longer comparable across heads. No published
/// name: with probes that stand for the future (`future_probes`) it is what the budgets over all
/// layers and heads (`GlobalBudget`) and the refit are at their best with. 2 n N d flops for each
/// query head.
struct ProbeAttention {
  ProbeStatistic statistic = ProbeStatistic::max;
  ValueNorm value_norm = ValueNorm::none;

  std::string_view name() const { return "ProbeAttention"; }
  EvidenceSet needs() const {
    EvidenceSet needs = {EvidenceKind::probes};
    if (value_norm == ValueNorm::output_projection) needs |= EvidenceKind::output_projection;
    return needs;
  }
  /// Attention weights are: every head's sum to one for a probe.
  bool comparable_across_heads() const { return value_norm == ValueNorm::none; }
  void validate() const {}

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    const ProbeQueries<R::space>& probes = *evidence.probes;
    const std::int64_t group =
        detail::require_group(probes.queries.heads(), cache.heads(), "probes.heads");
    WorkspaceScope scope(res.workspace());
    const RowLayout<R::space> per_query_head = cache.layout().repeated(group);
    const ScoreView<R::space> weights{
        scope.carve<float>("ProbeAttention.weights", per_query_head.total()), per_query_head};
    attention_statistic(res, cache.keys(), cache.positions(), probes,
                        1.0f / std::sqrt(static_cast<float>(cache.keys().dim())), of_each_head(),
                        weights);
    if (value_norm != ValueNorm::none) {
      weight_by_norm(res, cache.values(),
                     value_norm == ValueNorm::output_projection
                         ? evidence.output_projection->factors
                         : MatrixBatchView<const float, R::space>{},
                     Epsilon::absolute(0.0), ReductionDomain::linear, weights);
    }
    reduce_group(
        res, weights, statistic == ProbeStatistic::max ? GroupReduction::max : GroupReduction::mean,
        statistic == ProbeStatistic::rms ? ReductionDomain::square_root : ReductionDomain::linear,
        scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("statistic", self.statistic, "of the probes' attention weights");
    visit("value_norm", self.value_norm, "what multiplies the statistic");
  }

  friend bool operator==(const ProbeAttention&, const ProbeAttention&) = default;

 private:
  AttentionStatistic of_each_head() const {
    if (statistic == ProbeStatistic::mean) return AttentionStatistic::mean;
    return statistic == ProbeStatistic::rms ? AttentionStatistic::root_mean_square
                                            : AttentionStatistic::maximum;
  }
};

}  // namespace kvevict
