// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/row_norms.hpp"

namespace kvevict {

/// Keeps keys of small norm (arXiv 2406.11430): score_i = -|k_i|_2. No queries, no parameters; one
/// read of K, or of the norms where they are known from before.
struct KNorm {
  std::string_view name() const { return "KNorm"; }
  EvidenceSet needs() const { return {}; }
  EvidenceSet suggested_evidence() const { return {EvidenceKind::key_norms}; }
  bool comparable_across_heads() const { return false; }
  void validate() const {}

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    if (evidence.key_norms) return scale_norms(res, *evidence.key_norms, -1.0f, scores);
    row_norms(res, cache.keys(), -1.0f, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self&, Visitor&&) {}

  friend bool operator==(const KNorm&, const KNorm&) = default;
};

}  // namespace kvevict
