// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/lag_scores.hpp"

namespace kvevict {

/// Token importance from the rows that follow (arXiv 2504.04704). Rows are cut by row order into
/// partitions of `lag` rows behind the first `skip_first`. In every partition but the last whole
/// one, each channel of K is scaled by its smallest and largest value in the next partition; the
/// standard deviation of a row over its channels goes through a softmax over the partition, and the
/// mean of that and of the same for V is the row's importance. score_i = its rank in the partition
/// / lag, so that each partition keeps the same fraction, or the importance itself with
/// `cross_scoring`. The first rows, the last whole partition and what is behind it, `lag` to 2 lag
/// - 1 rows, get the largest score of their head; with fewer than skip_first + 2 lag rows, ranks
/// are by recency. Two reads of K and of V in double; memory O(N). No queries, no mask.
///
/// Of equal rows the earlier ranks higher. Unlike kvpress, a channel that is constant over a
/// partition is left out there, where it would make scores NaN.
struct LagKV {
  std::int64_t lag = 128;
  std::int64_t skip_first = 4;
  bool cross_scoring = false;  ///< compare importances between partitions

  /// kvpress' class defaults: lag 128, 4 sinks, ranks.
  static LagKV published() { return {}; }

  std::string_view name() const { return "LagKV"; }
  EvidenceSet needs() const { return {}; }
  bool comparable_across_heads() const { return false; }
  /// Published: the sinks and the rows that others are measured against.
  Protect suggested_protection() const { return {.sinks = skip_first, .recent = lag}; }

  void validate() const {
    require(lag >= 1, "lag", lag, ">=", 1);
    require(skip_first >= 0, "skip_first", skip_first, ">=", 0);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>&,
             ScoreView<R::space> scores) const {
    const LagPartitions partitions{skip_first, lag};
    const std::int64_t total = cache.layout().total();
    WorkspaceScope scope(res.workspace());
    const ScoreView<R::space> keys{scope.carve<float>("LagKV.keys", total), cache.layout()};
    const ScoreView<R::space> values{scope.carve<float>("LagKV.values", total), cache.layout()};
    lag_deviation(res, cache.keys(), partitions, keys);
    lag_deviation(res, cache.values(), partitions, values);
    lag_scores(res, keys, values, partitions, !cross_scoring, scores);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("published", published());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("lag", self.lag, "rows of a partition");
    visit("skip_first", self.skip_first, "rows before the first partition, ranked first");
    visit("cross_scoring", self.cross_scoring, "compare importances between partitions");
  }

  friend bool operator==(const LagKV&, const LagKV&) = default;
};

}  // namespace kvevict
