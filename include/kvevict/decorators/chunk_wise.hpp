// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "kvevict/decorators/inner_policy.hpp"
#include "kvevict/ops/score_combination.hpp"

namespace kvevict {

/// Scores whole chunks of consecutive rows (ChunkKV, arXiv 2502.00299): every row gets the mean of
/// the inner scores of its chunk. Chunks are of `chunk` rows from the head's first one on; the last
/// one may be shorter. Rows of a chunk are equal, so a budget that ends inside a chunk keeps the
/// first rows of it. ChunkKV also keeps the same chunks in all heads of a layer: select with
/// `select_same_rows`.
template <class P>
struct ChunkWise {
  P inner = {};
  std::int64_t chunk = 20;  ///< rows

  std::string_view name() const { return "ChunkWise"; }
  constexpr EvidenceSet needs() const { return inner.needs(); }
  bool comparable_across_heads() const { return inner.comparable_across_heads(); }

  void validate() const {
    require(chunk >= 1, "chunk", chunk, ">=", 1);
    detail::validate_inner(inner);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    inner.score(res, cache, evidence, scores);
    chunk_means(res, chunk, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("chunk", self.chunk, "rows of a chunk");
    detail::visit_inner(self.inner, "inner.", visit);
  }

  friend bool operator==(const ChunkWise&, const ChunkWise&) = default;
};

}  // namespace kvevict
