// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/key_similarity.hpp"
#include "kvevict/ops/row_weighting.hpp"
#include "kvevict/ops/score_combination.hpp"
#include "kvevict/ops/softmax.hpp"
#include "kvevict/policies/window_importance.hpp"

namespace kvevict {

/// Importance less redundancy, for the repetitive text of reasoning models (R-KV, arXiv
/// 2505.24133): score_j = lambda I_j - (1 - lambda) R_j. I: causal softmax attention of the last
/// `window` queries, mean over them, maximum over `kernel` neighbours among the rows before the
/// window, reduced over the group. R: softmax over the rows of the mean cosine of key j with all
/// others (as cached); for each key the latest other one with a cosine above `threshold` is exempt,
/// so that the last of several repetitions stays. Rows of the window (at or after the position of
/// its first query) get the largest score of their head: protect them with `recent = window`. A
/// context no longer than the window scores all alike. Up to 2 N^2 d flops for each KV head, less
/// where keys have similar ones near the end; memory O(N).
///
/// Taken from the paper: lambda 0.1, the maximum over the group, exemption. From the authors' code:
/// window 8, kernel 7, threshold 0.5, one exempt row for each key. Unlike that code, which divides
/// by the attention on the rows before the window alone and takes the group's maximum of logits,
/// the softmax runs over all rows that a query sees, for each query head; and a key without similar
/// ones exempts nothing, where the code exempts row 0.
struct RKV {
  std::int64_t window = 8;  ///< queries used: the last of those given, or all if fewer
  std::int64_t kernel = 7;  ///< pooling width, odd
  double lambda = 0.1;      ///< weight of the importance, that of the redundancy is 1 - lambda
  double threshold = 0.5;   ///< cosine above which keys are similar
  GroupReduction reduction = GroupReduction::max;

  /// The paper's lambda.
  static RKV published() { return {}; }
  /// The default of the authors' code.
  static RKV reference() { return {.lambda = 0.07}; }

  std::string_view name() const { return "RKV"; }
  EvidenceSet needs() const { return {EvidenceKind::query_window}; }
  bool comparable_across_heads() const { return false; }
  Protect suggested_protection() const { return {.recent = window}; }

  void validate() const {
    require(window >= 1, "window", window, ">=", 1);
    require(kernel >= 1 && kernel % 2 == 1, "kernel", kernel, "odd and >= 1");
    require(lambda >= 0.0 && lambda <= 1.0, "lambda", lambda, "in [0, 1]");
    require(threshold >= -1.0 && threshold <= 1.0, "threshold", threshold, "in [-1, 1]");
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    WorkspaceScope scope(res.workspace());
    const ScoreView<R::space> redundancy{
        scope.carve<float>("RKV.redundancy", cache.layout().total()), cache.layout()};
    const auto bound =
        detail::window_importance(res, cache, *evidence.query_window,
                                  {window, kernel, Pooling::max, false, reduction}, scores);
    mean_similarity(res, cache.keys(), static_cast<float>(threshold), redundancy);
    softmax(res, redundancy, 0, SoftmaxOutput::probability);
    scale_scores(res, static_cast<float>(lambda), scores);
    combine_scores(res, redundancy, -static_cast<float>(1.0 - lambda), Combination::sum, scores);
    raise_rows(res, cache.positions(), RaisedRows<R::space>{0, bound, 0}, scores);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("published", published());
    visit("reference", reference());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("window", self.window, "last queries used");
    visit("kernel", self.kernel, "width of the pooling, odd");
    visit("lambda", self.lambda, "weight of the importance against the redundancy");
    visit("threshold", self.threshold, "cosine above which keys are similar");
    visit("reduction", self.reduction, "over the query heads of a group");
  }

  friend bool operator==(const RKV&, const RKV&) = default;
};

}  // namespace kvevict
