// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/capacity.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/key_direction.hpp"
#include "kvevict/ops/query_logits.hpp"
#include "kvevict/ops/row_weighting.hpp"
#include "kvevict/policies/projection_use.hpp"

namespace kvevict {

/// How CapKV aligns a key with the mean query.
enum class CapKVForm {
  reference,  ///< the authors' code: cosine, sharpened by a factor
  paper       ///< the paper's text: dot product over a temperature
};

inline std::span<const EnumName<CapKVForm>> enum_names(CapKVForm) {
  static constexpr EnumName<CapKVForm> names[] = {{CapKVForm::reference, "reference"},
                                                  {CapKVForm::paper, "paper"}};
  return names;
}

/// Query-aligned capacity (arXiv 2604.25975). Per query head, over the rows after `skip_first`,
///   reference: c_i = cos(mu, k_i),        w_i = exp(sharpness (c_i - max c)),  g_i = w_i + epsilon
///   paper:     l_i = mu . k_i / sqrt(d),  w_i = exp((l_i - max l) / temperature),  g_i = w_i
///   A = s2 I + sum_i g_i u_i u_i^T,  score_i = w_i u_i^T A^-1 u_i,  reduced over the group,
/// u = v or R v as in Jacap; `pooled` solves one matrix per KV head with w averaged over the group.
/// The first `skip_first` rows get the largest score of their head. 0 <= score < 1. Cost as Jacap.
struct CapKV {
  CapKVForm form = CapKVForm::paper;
  double sharpness = 5.0;    ///< reference form: multiplies the cosine (the authors' tau)
  double temperature = 1.0;  ///< paper form: divides the logit
  double epsilon = 1e-6;     ///< reference form: added to the weights of the matrix
  std::int64_t skip_first = 4;
  Noise noise = Noise::relative(0.1);
  ProjectionUse output_projection = ProjectionUse::none;
  GroupReduction reduction = GroupReduction::mean;
  bool pooled = false;

  /// The authors' code in kvpress: cosine, tau = 5, s2 = 1.
  static CapKV reference() { return {.form = CapKVForm::reference, .noise = Noise::absolute(1.0)}; }
  /// The default: the paper's dot product at temperature 1 with relative noise, several times less
  /// loss on real heads than a cosine at 5, whose weights are nearly uniform.
  static CapKV measured() { return {}; }

  std::string_view name() const { return "CapKV"; }
  EvidenceSet needs() const {
    EvidenceSet needs = {EvidenceKind::query_stats};
    if (output_projection == ProjectionUse::factor) needs |= EvidenceKind::output_projection;
    return needs;
  }
  bool comparable_across_heads() const { return false; }

  void validate() const {
    require(sharpness > 0.0 && std::isfinite(sharpness), "sharpness", sharpness, "finite and > 0");
    require(temperature > 0.0 && std::isfinite(temperature), "temperature", temperature,
            "finite and > 0");
    require(epsilon >= 0.0 && epsilon <= 1.0, "epsilon", epsilon, "in [0, 1]");
    require(skip_first >= 0, "skip_first", skip_first, ">=", 0);
    require_valid(noise);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    const MatrixView<const float, R::space>& mean = evidence.query_stats->mean;
    const std::int64_t group =
        detail::require_group(mean.shape[0], cache.heads(), "query_stats.mean.heads");
    const bool cosines = form == CapKVForm::reference;
    const RowLayout<R::space> per_query_head = cache.layout().repeated(group);
    WorkspaceScope scope(res.workspace());
    const ScoreView<R::space> weights{scope.carve<float>("CapKV.weights", per_query_head.total()),
                                      per_query_head};
    const ScoreView<R::space> matrix_weights{
        scope.carve<float>("CapKV.matrix_weights", per_query_head.total()), per_query_head};
    alignments(res, cache, mean, weights);
    const float offset = cosines ? static_cast<float>(epsilon) : 0.0f;
    exponential_root_weights(res, weights, slope(), offset, skip_first, matrix_weights);
    exponential_root_weights(res, weights, slope(), 0.0f, skip_first, weights);
    const MatrixBatchView<const float, R::space> transforms =
        detail::value_transforms(res, scope, cache, evidence, output_projection, group, pooled);
    if (pooled) {
      const ScoreView<R::space> pooled_matrix_weights{
          scope.carve<float>("CapKV.pooled_weights", cache.layout().total()), cache.layout()};
      reduce_group(res, matrix_weights, reduction, ReductionDomain::square_root,
                   pooled_matrix_weights);
      reduce_group(res, weights, reduction, ReductionDomain::square_root, scores);
      capacity_scores(res, cache.values(), pooled_matrix_weights, transforms, noise, scores,
                      scores);
    } else {
      capacity_scores(res, cache.values(), matrix_weights, transforms, noise, weights, weights);
      reduce_group(res, weights, reduction, ReductionDomain::linear, scores);
    }
    raise_rows(res, cache.positions(), RaisedRows<R::space>{skip_first, {}}, scores);
  }

  /// Square roots of the weights as the scores of one capacity matrix for each KV head have them: 0
  /// for the first `skip_first` rows.
  template <class R, class T>
  void pooled_root_weights(R& res, const KvView<const T, R::space>& cache,
                           const Evidence<R::space>& evidence, ScoreView<R::space> roots) const {
    const MatrixView<const float, R::space>& mean = evidence.query_stats->mean;
    const std::int64_t group =
        detail::require_group(mean.shape[0], cache.heads(), "query_stats.mean.heads");
    const RowLayout<R::space> per_query_head = cache.layout().repeated(group);
    WorkspaceScope scope(res.workspace());
    const ScoreView<R::space> weights{scope.carve<float>("CapKV.weights", per_query_head.total()),
                                      per_query_head};
    alignments(res, cache, mean, weights);
    exponential_root_weights(res, weights, slope(), 0.0f, skip_first, weights);
    reduce_group(res, weights, reduction, ReductionDomain::square_root, roots);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("reference", reference());
    visit("measured", measured());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("form", self.form, "how keys are aligned with the mean query");
    visit("sharpness", self.sharpness, "reference form: multiplies the cosine");
    visit("temperature", self.temperature, "paper form: divides the logit");
    visit("epsilon", self.epsilon, "reference form: added to the weights of the matrix");
    visit("skip_first", self.skip_first, "rows left out and ranked first");
    visit("noise", self.noise, "regulariser of the capacity matrix");
    visit("output_projection", self.output_projection, "see values through W_O");
    visit("reduction", self.reduction, "over the query heads of a group");
    visit("pooled", self.pooled, "one capacity matrix for each KV head");
  }

  friend bool operator==(const CapKV&, const CapKV&) = default;

 private:
  float slope() const {
    return static_cast<float>(form == CapKVForm::reference ? sharpness : 1.0 / temperature);
  }

  /// Cosines or logits of the mean query, which the weights are exponentials of.
  template <class R, class T>
  void alignments(R& res, const KvView<const T, R::space>& cache,
                  const MatrixView<const float, R::space>& mean, ScoreView<R::space> out) const {
    if (form == CapKVForm::reference) {
      cosine(res, cache.keys(), mean, 1.0f, out);
    } else {
      query_logits(res, cache.keys(), mean,
                   1.0f / std::sqrt(static_cast<float>(cache.keys().dim())), out);
    }
  }
};

}  // namespace kvevict
