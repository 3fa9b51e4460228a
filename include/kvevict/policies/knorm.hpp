// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/row_norms.hpp"

namespace kvevict {

/// Keeps keys of small norm (arXiv 2406.11430): score_i = -|k_i|_2. No queries, no parameters; one
/// read of K.
struct KNorm {
  std::string_view name() const { return "KNorm"; }
  EvidenceSet needs() const { return {}; }
  bool comparable_across_heads() const { return false; }
  void validate() const {}

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>&,
             ScoreView<R::space> scores) const {
    row_norms(res, cache.keys(), -1.0f, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self&, Visitor&&) {}

  friend bool operator==(const KNorm&, const KNorm&) = default;
};

}  // namespace kvevict
