// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/running_query_stats.hpp"

namespace kvevict {

/// How `estimate_query_stats` looks at the queries.
struct QueryStatsOptions {
  std::int64_t next_position = -1;  ///< tokens seen; always given
  std::int64_t future = 512;        ///< positions ahead to average the rotation over
  std::int64_t skip_first = 4;      ///< queries (of the sinks) left out
  Covariance covariance = Covariance::diagonal;
};

/// Statistics of the future queries from the pre-RoPE queries of the context: see
/// RunningQueryStats. Throws invalid_argument unless more than `skip_first` queries are given.
/// O(heads * queries * dim), times dim for full.
template <class R>
BasicQueryStats<R::space> estimate_query_stats(R& res, const QueriesView<R::space>& pre_rope,
                                               const Rope& rope, const QueryStatsOptions& options) {
  require(options.skip_first >= 0, "skip_first", options.skip_first, ">=", 0);
  require(pre_rope.count() > options.skip_first, "queries.count", pre_rope.count(),
          "above skip_first,", options.skip_first);
  BasicRunningQueryStats<R::space> running(pre_rope.heads(), pre_rope.dim(), rope,
                                           options.covariance);
  running.observe(res, pre_rope, options.skip_first);
  return running.finish(res, {options.next_position, options.future});
}

/// Statistics of post-RoPE queries as they are, such as the last window of the context.
template <class R>
BasicQueryStats<R::space> window_query_stats(R& res, const QueriesView<R::space>& post_rope,
                                             Covariance covariance) {
  const Rope none{.rotary_dim = post_rope.dim() - post_rope.dim() % 2};
  BasicRunningQueryStats<R::space> running(post_rope.heads(), post_rope.dim(), none, covariance);
  running.observe(res, post_rope);
  return running.finish_unrotated(res);
}

}  // namespace kvevict
