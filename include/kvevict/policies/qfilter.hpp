// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/query_logits.hpp"

namespace kvevict {

/// Keeps keys against a direction found once for each head of a model (arXiv 2503.02812): score_i =
/// -(f . k_i), f the query filter of the KV head, in the frame of the cached keys and signed as the
/// authors' filters are. No queries, no parameters; one read of K.
struct QFilter {
  std::string_view name() const { return "QFilter"; }
  EvidenceSet needs() const { return {EvidenceKind::query_filter}; }
  bool comparable_across_heads() const { return false; }
  void validate() const {}

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    const MatrixView<const float, R::space>& filter = evidence.query_filter->directions;
    require(filter.shape[0] == cache.heads(), "query_filter.heads", filter.shape[0],
            "equal to the KV heads,", cache.heads());
    detail::require_dim(filter.shape[1], cache.keys().dim(), "query_filter.dim");
    query_logits(res, cache.keys(), filter, -1.0f, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self&, Visitor&&) {}

  friend bool operator==(const QFilter&, const QFilter&) = default;
};

}  // namespace kvevict
