// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/chunk_attention.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/pooling.hpp"
#include "kvevict/ops/row_weighting.hpp"

namespace kvevict {

namespace detail {

/// Attention in both directions within chunks.
struct ChunkImportance {
  std::int64_t chunk;
  ChunkPadding padding;
  std::int64_t kernel;
  bool scale_logits;
  GroupReduction reduction;
  RowRange range;  ///< rows outside take no part; their scores are of no use
};

template <class R, class T>
void chunk_importance(R& res, const KvView<const T, R::space>& cache,
                      const Evidence<R::space>& evidence, const ChunkImportance& how,
                      ScoreView<R::space> scores) {
  const QueryWindow<R::space>& window = *evidence.query_window;
  const std::int64_t group =
      require_group(window.queries.heads(), cache.heads(), "query_window.heads");
  const float scale =
      how.scale_logits ? 1.0f / std::sqrt(static_cast<float>(cache.keys().dim())) : 1.0f;
  WorkspaceScope scope(res.workspace());
  const RowLayout<R::space> per_query_head = cache.layout().repeated(group);
  const ScoreView<R::space> weights{
      scope.carve<float>("chunk_importance.weights", per_query_head.total()), per_query_head};
  chunk_attention(res, cache.keys(), cache.positions(), window, how.range, how.chunk, how.padding,
                  scale, weights);
  reduce_group(res, weights, how.reduction, ReductionDomain::linear, scores);
  weight_by_norm(res, cache.values(), MatrixBatchView<const float, R::space>{},
                 Epsilon::absolute(0.0), ReductionDomain::linear, scores);
  // Rows outside the range are zeros, as what lies beyond the ends of a head.
  pool_rows(res, cache.positions(), cache.layout(), PositionBound<R::space>{}, how.kernel,
            Pooling::average, true, scores);
}

}  // namespace detail

/// Attention without a causal mask (arXiv 2507.08143, as in kvpress' NonCausalAttnPress): within
/// chunks of `chunk` rows by row order every query attends to every row, also those behind it, and
/// the weights that a row receives are summed; mean over the group, times |v_i|, averaged with the
/// neighbours. The last chunk may be shorter. Needs the queries of all rows, after RoPE: rows of
/// chunks without queries score 0 but for their neighbours. Logits are q . k as in kvpress, without
/// 1 / sqrt(d), unless `scale_logits`. Two reads of K, one of V; 2 chunk N d flops for each query
/// head, memory O(N).
///
/// Unlike kvpress, a short last chunk has by default no padding that takes part in its softmax,
/// which almost erases the signal of a head shorter than a chunk, and scores are no z-scores over
/// all heads and sequences, which keep the order within a head.
struct NonCausalAttention {
  std::int64_t chunk = 256;
  ChunkPadding padding = ChunkPadding::none;
  std::int64_t kernel = 3;  ///< pooling width, odd; zeros beyond the ends count
  bool scale_logits = false;
  GroupReduction reduction = GroupReduction::mean;

  /// kvpress: chunks of 256 rows, the last one padded, pooled over 3.
  static NonCausalAttention published() { return {.padding = ChunkPadding::zeros}; }

  std::string_view name() const { return "NonCausalAttention"; }
  EvidenceSet needs() const { return {EvidenceKind::query_window}; }
  bool comparable_across_heads() const { return false; }

  void validate() const {
    require(chunk >= 1, "chunk", chunk, ">=", 1);
    require(kernel >= 1 && kernel % 2 == 1, "kernel", kernel, "odd and >= 1");
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    detail::chunk_importance(res, cache, evidence,
                             {chunk, padding, kernel, scale_logits, reduction, {}}, scores);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("published", published());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("chunk", self.chunk, "rows that attend to each other");
    visit("padding", self.padding, "of a short last chunk");
    visit("kernel", self.kernel, "width of the pooling, odd");
    visit("scale_logits", self.scale_logits, "divide logits by sqrt(d)");
    visit("reduction", self.reduction, "over the query heads of a group");
  }

  friend bool operator==(const NonCausalAttention&, const NonCausalAttention&) = default;
};

}  // namespace kvevict
