// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/score_arithmetic.hpp"
#include "kvevict/ops/score_combination.hpp"
#include "kvevict/policies/key_leverage.hpp"
#include "kvevict/policies/noncausal_attention.hpp"

namespace kvevict {

/// Leverage of keys and attention without a causal mask, blended (arXiv 2507.08143): score_i =
/// blending * z(leverage)_i + z(attention)_i over the rows without the first `skip_first` and the
/// last `skip_last`, where these rows take no part in either; z(x) = (x - mean) / standard
/// deviation over the rows of the head. `LeverageScore` and `NonCausalAttention` are the two parts;
/// chunks are counted from the first row that takes part. The rows left out get the largest score
/// of their head; where there are no others all scores are equal. Cost and needs are those of both
/// parts.
///
/// Unlike kvpress, z-scores are taken within each head, not over all heads and sequences, so that a
/// head scores alike in every batch; the blending is a parameter and not the compression ratio, on
/// which its scores depend; there is neither a sketch nor padding by default.
struct Compactor {
  LeverageKeys keys = LeverageKeys::before_rope;
  std::int64_t sketch = 0;  ///< width of the random sketch, 0: exact
  std::uint64_t seed = 0;   ///< of the sketch
  Noise noise = Noise::absolute(0.01);
  std::int64_t chunk = 256;
  ChunkPadding padding = ChunkPadding::none;
  double blending = 0.35;  ///< weight of the leverage
  std::int64_t skip_first = 8;
  std::int64_t skip_last = 4;

  /// kvpress: a sketch of 48 numbers, chunks of 256 rows, the last one padded, 8 rows at the start
  /// and 4 at the end left out.
  static Compactor published() { return {.sketch = 48, .padding = ChunkPadding::zeros}; }

  std::string_view name() const { return "Compactor"; }
  EvidenceSet needs() const {
    EvidenceSet needs = {EvidenceKind::query_window};
    if (keys == LeverageKeys::before_rope) needs |= EvidenceKind::keys_before_rope;
    return needs;
  }
  bool comparable_across_heads() const { return false; }
  Protect suggested_protection() const { return {.sinks = skip_first, .recent = skip_last}; }

  void validate() const {
    require(sketch >= 0, "sketch", sketch, ">=", 0);
    require_valid(noise);
    require(chunk >= 1, "chunk", chunk, ">=", 1);
    require(std::abs(blending) < 1e30, "blending", blending, "finite");
    require(skip_first >= 0, "skip_first", skip_first, ">=", 0);
    require(skip_last >= 0, "skip_last", skip_last, ">=", 0);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    const RowRange range{skip_first, skip_last};
    WorkspaceScope scope(res.workspace());
    const ScoreView<R::space> leverage{
        scope.carve<float>("Compactor.leverage", cache.layout().total()), cache.layout()};
    detail::key_leverage(res, cache, evidence, {keys, sketch, seed, noise, range}, leverage);
    detail::chunk_importance(res, cache, evidence,
                             {chunk, padding, 3, false, GroupReduction::mean, range}, scores);
    standardise(res, range, leverage);
    standardise(res, range, scores);
    combine_scores(res, leverage, static_cast<float>(blending), Combination::sum, scores);
    raise_rows(res, cache.positions(), RaisedRows<R::space>{skip_first, {}, skip_last}, scores);
  }

  template <class Visitor>
  static void presets(Visitor&& visit) {
    visit("published", published());
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("keys", self.keys, "whose leverage it is");
    visit("sketch", self.sketch, "width of the random sketch, 0: exact");
    visit("seed", self.seed, "of the sketch");
    visit("noise", self.noise, "regulariser of the matrix");
    visit("chunk", self.chunk, "rows that attend to each other");
    visit("padding", self.padding, "of a short last chunk");
    visit("blending", self.blending, "weight of the leverage");
    visit("skip_first", self.skip_first, "rows left out and ranked first");
    visit("skip_last", self.skip_last, "rows at the end left out and ranked first");
  }

  friend bool operator==(const Compactor&, const Compactor&) = default;
};

}  // namespace kvevict
