// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/drop_loss.hpp"
#include "kvevict/policies/projection_use.hpp"

namespace kvevict {

/// How far the attention outputs of probe queries move when a row leaves:
///   score_j = sqrt( mean over the probes i of the group of (p_ij / (1 - p_ij))^2 |o_i - v_j|^2 )
/// with p_i = softmax(q_i . k / sqrt(d)) over the rows that the probe sees and o_i = sum_j p_ij
/// v_j. That is the exact change when row j alone leaves, since the weights of the others are
/// divided by 1 - p_ij; it is at most the distance of v_j from the output over the others, however
/// near p_ij is to 1. With an output projection |R (o_i - v_j)|, R the factor of the probe's query
/// head. No published name. Probes as for ProbeAttention; rows are ranked as by the sum of squares,
/// without its range of 1e-38 and below. With budgets over all layers and heads (`GlobalBudget`)
/// the best of plain evictions in the mean over eight texts, not on each (bench/quality.md).
struct DropLoss {
  ProjectionUse output_projection = ProjectionUse::none;

  std::string_view name() const { return "DropLoss"; }
  EvidenceSet needs() const {
    EvidenceSet needs = {EvidenceKind::probes};
    if (output_projection == ProjectionUse::factor) needs |= EvidenceKind::output_projection;
    return needs;
  }
  /// Changes of attention outputs, all in their one unit: measured to serve one budget for all
  /// heads (bench/quality.md).
  bool comparable_across_heads() const { return true; }
  void validate() const {}

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    drop_loss(res, cache.keys(), cache.values(), cache.positions(), *evidence.probes,
              1.0f / std::sqrt(static_cast<float>(cache.keys().dim())),
              output_projection == ProjectionUse::factor ? evidence.output_projection->factors
                                                         : MatrixBatchView<const float, R::space>{},
              scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("output_projection", self.output_projection, "see values through W_O");
  }

  friend bool operator==(const DropLoss&, const DropLoss&) = default;
};

}  // namespace kvevict
