// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kvevict/decorators/inner_policy.hpp"
#include "kvevict/ops/row_norms.hpp"
#include "kvevict/ops/score_marks.hpp"

namespace kvevict {

/// Attention sinks rank before all other rows, wherever they are. That sinks arise beyond the first
/// tokens, and have to be found, is KVSink's observation (arXiv 2508.04257), which reads them from
/// outlier channels of hidden states. A cache has no hidden states; what it shows of a sink is a
/// value of small norm, by which attention to it adds next to nothing (the same source; "value
/// drains" in arXiv 2410.13835):
///   row i is a sink if |v_i|_2 < threshold * mean_j |v_j|_2.
/// On two texts in a small model the first token and, in one of them, five more lie below 0.34 in
/// every head, nearly all others above 0.5. Cost beside the inner policy's: one read of V.
template <class P>
struct SinkDetection {
  P inner = {};
  double threshold = 0.35;  ///< part of the mean norm below which a value is a sink's

  std::string_view name() const { return "SinkDetection"; }
  constexpr EvidenceSet needs() const { return inner.needs(); }
  /// Sinks of all heads rank first, by different amounts.
  bool comparable_across_heads() const { return inner.comparable_across_heads(); }

  void validate() const {
    require(threshold >= 0.0 && threshold <= 1.0, "threshold", threshold, "in [0, 1]");
    detail::validate_inner(inner);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    inner.score(res, cache, evidence, scores);
    WorkspaceScope scope(res.workspace());
    const ScoreView<R::space> marks{
        scope.template carve<float>("SinkDetection.marks", cache.layout().total()), cache.layout()};
    row_norms(res, cache.values(), 1.0f, marks);
    mark_small(res, marks, threshold, marks);
    lift_marked(res, marks, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("threshold", self.threshold, "part of the mean norm below which a value is a sink's");
    detail::visit_inner(self.inner, "inner.", visit);
  }

  friend bool operator==(const SinkDetection&, const SinkDetection&) = default;
};

}  // namespace kvevict
