// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/attention_statistic.hpp"
#include "kvevict/ops/capacity.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/query_logits.hpp"
#include "kvevict/ops/row_weighting.hpp"
#include "kvevict/ops/softmax.hpp"
#include "kvevict/policies/projection_use.hpp"

namespace kvevict {

/// Where Jacap's softmax weights come from.
enum class WeightEvidence {
  automatic,  ///< probes when they are given, else the mean query
  mean,       ///< query statistics
  probes      ///< probe queries
};

inline std::span<const EnumName<WeightEvidence>> enum_names(WeightEvidence) {
  static constexpr EnumName<WeightEvidence> names[] = {{WeightEvidence::automatic, "automatic"},
                                                       {WeightEvidence::mean, "mean"},
                                                       {WeightEvidence::probes, "probes"}};
  return names;
}

/// Jacobian-weighted capacity (arXiv 2609.08131, Algorithm 1, Eqs. 5-10): keep the rows whose
/// values carry most of the channel from future queries to attention outputs. Per query head, over
/// all N rows,
///   a       = softmax(k . mu / (temperature sqrt(d)))
///   rho_i   = a_i (1 - a_i)                   diagonal of the softmax Jacobian
///   kappa_i = k_i^T Lambda k_i
///   w_i     = rho_i^2 kappa_i / d             Eq. 8; rho_i^2 without covariance
///   A       = s2 I + sum_i w_i u_i u_i^T
///   score_i = w_i u_i^T A^-1 u_i              leverage: the marginal capacity of row i
/// with u = v, or u = R v and R the factor of the output projection. From probes instead of the
/// mean query: rho_i = mean over the probes of p_i (1 - p_i), w_i = rho_i^2. `pooled` solves one
/// matrix per KV head, with w averaged over the group (probes: rho averaged), instead of one per
/// query head with scores reduced over the group.
///
/// 0 <= score < 1, and the scores of a matrix sum to d - s2 tr(A^-1). With relative noise they do
/// not depend on the scale of values or weights. A head whose weights all underflow scores 0
/// throughout and is counted in the report. Reads K once and V twice; 2 N d^2 flops in double plus
/// 2 N d^2 in fp32 for each matrix.
struct Jacap {
  double temperature = 1.0;
  Covariance covariance = Covariance::diagonal;
  Noise noise = Noise::relative(0.1);
  ProjectionUse output_projection = ProjectionUse::none;
  GroupReduction reduction = GroupReduction::mean;
  bool pooled = true;
  WeightEvidence evidence = WeightEvidence::automatic;

  /// As the paper states it: temperature 10, s2 = 1, diagonal covariance, one matrix per query
  /// head.
  static Jacap published() {
    return {.temperature = 10.0,
            .noise = Noise::absolute(1.0),
            .pooled = false,
            .evidence = WeightEvidence::mean};
  }
  /// The default: what was measured to keep most (README, "Policies").
  static Jacap measured() { return {}; }

  std::string_view name() const { return "Jacap"; }

  EvidenceSet needs() const {
    EvidenceSet needs;
    if (evidence == WeightEvidence::mean) needs = evidence_for(covariance);
    if (evidence == WeightEvidence::probes) needs = {EvidenceKind::probes};
    if (output_projection == ProjectionUse::factor) needs |= EvidenceKind::output_projection;
    return needs;
  }
  /// What to collect where it may choose: probes, which were measured to be the better.
  EvidenceSet suggested_evidence() const {
    return evidence == WeightEvidence::automatic ? EvidenceSet{EvidenceKind::probes} : needs();
  }
  /// Leverages are relative to their own head's matrix.
  bool comparable_across_heads() const { return false; }

  void validate() const {
    require(temperature > 0.0 && std::isfinite(temperature), "temperature", temperature,
            "finite and > 0");
    require_valid(noise);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& given,
             ScoreView<R::space> scores) const {
    const std::int64_t group = group_of(cache, given);
    WorkspaceScope scope(res.workspace());
    const MatrixBatchView<const float, R::space> transforms =
        detail::value_transforms(res, scope, cache, given, output_projection, group, pooled);
    if (pooled) {
      pooled_root_weights(res, cache, given, scores);
      capacity_scores(res, cache.values(), scores, transforms, noise, scores, scores);
    } else {
      const RowLayout<R::space> per_query_head = cache.layout().repeated(group);
      const ScoreView<R::space> roots{
          scope.carve<float>("Jacap.root_weights", per_query_head.total()), per_query_head};
      root_weights(res, cache, given, roots);
      capacity_scores(res, cache.values(), roots, transforms, noise, roots, roots);
      reduce_group(res, roots, reduction, ReductionDomain::linear, scores);
    }
  }

  /// Square roots of the weights as one capacity matrix for each KV head has them.
  template <class R, class T>
  void pooled_root_weights(R& res, const KvView<const T, R::space>& cache,
                           const Evidence<R::space>& given, ScoreView<R::space> roots) const {
    WorkspaceScope scope(res.workspace());
    const RowLayout<R::space> per_query_head = cache.layout().repeated(group_of(cache, given));
    const ScoreView<R::space> of_query_heads{
        scope.carve<float>("Jacap.root_weights", per_query_head.total()), per_query_head};
    root_weights(res, cache, given, of_query_heads);
    reduce_group(res, of_query_heads, reduction,
                 from_probes(given) ? ReductionDomain::linear : ReductionDomain::square_root,
                 roots);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("published", published());
    visit("measured", measured());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("temperature", self.temperature, "divides the logits");
    visit("covariance", self.covariance, "of the future queries, in kappa");
    visit("noise", self.noise, "regulariser of the capacity matrix");
    visit("output_projection", self.output_projection, "see values through W_O");
    visit("reduction", self.reduction, "over the query heads of a group");
    visit("pooled", self.pooled, "one capacity matrix for each KV head");
    visit("evidence", self.evidence, "where the softmax weights come from");
  }

  friend bool operator==(const Jacap&, const Jacap&) = default;

 private:
  template <MemorySpace S>
  bool from_probes(const Evidence<S>& given) const {
    return evidence == WeightEvidence::probes ||
           (evidence == WeightEvidence::automatic && given.probes.has_value());
  }

  template <class T, MemorySpace S>
  std::int64_t group_of(const KvView<const T, S>& cache, const Evidence<S>& given) const {
    require(from_probes(given) || given.query_stats.has_value(), "evidence.probes", "missing",
            "given for Jacap, or evidence.query_stats instead");
    if (!from_probes(given)) require_evidence(given, evidence_for(covariance), name());
    const std::int64_t query_heads =
        from_probes(given) ? given.probes->queries.heads() : given.query_stats->mean.shape[0];
    return detail::require_group(query_heads, cache.heads(), "query heads");
  }

  /// Of each query head.
  template <class R, class T>
  void root_weights(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& given,
                    ScoreView<R::space> roots) const {
    if (from_probes(given)) {
      attention_statistic(res, cache.keys(), cache.positions(), *given.probes, logit_scale(cache),
                          AttentionStatistic::mean_jacobian_diagonal, roots);
    } else {
      roots_from_mean(res, cache, *given.query_stats, roots);
    }
  }

  template <class T, MemorySpace S>
  float logit_scale(const KvView<const T, S>& cache) const {
    return static_cast<float>(1.0 /
                              (temperature * std::sqrt(static_cast<double>(cache.keys().dim()))));
  }

  template <class R, class T>
  void roots_from_mean(R& res, const KvView<const T, R::space>& cache,
                       const QueryStatsView<R::space>& stats, ScoreView<R::space> roots) const {
    query_logits(res, cache.keys(), stats.mean, logit_scale(cache), roots);
    softmax(res, roots, 0, SoftmaxOutput::jacobian_diagonal);
    if (covariance == Covariance::none) return;
    WorkspaceScope scope(res.workspace());
    const ScoreView<R::space> kappa{scope.carve<float>("Jacap.kappa", roots.layout.total()),
                                    roots.layout};
    quadratic_form(res, cache.keys(), stats, covariance,
                   1.0f / static_cast<float>(cache.keys().dim()), false, kappa);
    multiply_by_root(res, kappa, roots);
  }
};

}  // namespace kvevict
