// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/key_direction.hpp"

namespace kvevict {

/// Keeps keys unlike the average key (arXiv 2504.15364): score_i = -cos(k_i, anchor), anchor =
/// mean_j k_j / |k_j|. A zero key, or an anchor that cancels to zero, has cosine 0. No queries, no
/// parameters; two reads of K, or one where the anchor is known from before.
struct KeyDiff {
  std::string_view name() const { return "KeyDiff"; }
  EvidenceSet needs() const { return {}; }
  EvidenceSet suggested_evidence() const { return {EvidenceKind::mean_key_direction}; }
  bool comparable_across_heads() const { return false; }
  void validate() const {}

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    if (evidence.mean_key_direction) {
      const auto& known = evidence.mean_key_direction->directions;
      require(known.shape[0] == cache.heads(), "mean_key_direction.heads", known.shape[0],
              "equal to the KV heads,", cache.heads());
      detail::require_dim(known.shape[1], cache.keys().dim(), "mean_key_direction.dim");
      return cosine(res, cache.keys(), known, -1.0f, scores);
    }
    WorkspaceScope scope(res.workspace());
    const std::int64_t dim = cache.keys().dim();
    const auto anchor = MatrixView<float, R::space>::packed(
        scope.carve<float>("KeyDiff.anchor", cache.heads() * dim), cache.heads(), dim);
    mean_direction(res, cache.keys(), anchor);
    cosine(res, cache.keys(), MatrixView<const float, R::space>(anchor), -1.0f, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self&, Visitor&&) {}

  friend bool operator==(const KeyDiff&, const KeyDiff&) = default;
};

}  // namespace kvevict
