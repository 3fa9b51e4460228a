// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/attention_statistic.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/pooling.hpp"

namespace kvevict::detail {

/// The last `count` queries of a window, all if it has fewer.
template <MemorySpace S>
ProbeQueries<S> last_queries(const QueryWindow<S>& given, std::int64_t count) {
  const std::int64_t used = std::min(count, given.queries.count());
  return {given.queries.last(used), given.positions.skip(given.queries.count() - used),
          ProbeMask::by_position};
}

/// What is made of the attention that a window of queries pays.
struct WindowImportance {
  std::int64_t window;  ///< last queries used
  std::int64_t kernel;  ///< pooling width along the rows before the window
  Pooling pooling;
  bool count_padding;
  GroupReduction reduction;
};

/// scores = per query head the causal softmax weight, mean over the last queries, pooled among the
/// rows before the window; then reduced over the group. Returns where the window begins: rows from
/// there on have no score of use.
template <class R, class T>
PositionBound<R::space> window_importance(R& res, const KvView<const T, R::space>& cache,
                                          const QueryWindow<R::space>& given,
                                          const WindowImportance& how, ScoreView<R::space> scores) {
  const ProbeQueries<R::space> last = last_queries(given, how.window);
  const std::int64_t group =
      require_group(given.queries.heads(), cache.heads(), "query_window.heads");
  const float scale = 1.0f / std::sqrt(static_cast<float>(cache.keys().dim()));
  const auto bound = PositionBound<R::space>::at_first(last.positions);
  WorkspaceScope scope(res.workspace());
  const RowLayout<R::space> per_query_head = cache.layout().repeated(group);
  const ScoreView<R::space> weights{
      scope.carve<float>("window_importance.weights", per_query_head.total()), per_query_head};
  attention_statistic(res, cache.keys(), cache.positions(), last, scale, AttentionStatistic::mean,
                      weights);
  pool_rows(res, cache.positions(), cache.layout(), bound, how.kernel, how.pooling,
            how.count_padding, weights);
  reduce_group(res, weights, how.reduction, ReductionDomain::linear, scores);
  return bound;
}

}  // namespace kvevict::detail
