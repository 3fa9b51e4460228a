// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "kvevict/core/config.hpp"
#include "kvevict/decorators/inner_policy.hpp"
#include "kvevict/ops/carved_layout.hpp"
#include "kvevict/ops/gather.hpp"
#include "kvevict/ops/score_order.hpp"
#include "kvevict/ops/select_top.hpp"
#include "kvevict/ops/streamed_rows.hpp"

namespace kvevict {

/// Scores rows as if they had arrived in blocks and each block had been evicted to `keep` rows at
/// once (kvpress, BlockPress; the blockwise use of KeyDiff, arXiv 2504.15364):
///   kept = the first `keep` rows;  for each following block: score kept and block with the inner
///   policy over these rows alone, kept = the `keep` best of them.
/// For scores that depend on the other rows, as KeyDiff's anchor does, the result differs from
/// scoring all rows at once. Rows of the last kept set get their rank in the last scoring, in
/// (0, 1]; the others a negative number that is larger the later they were dropped: a budget of
/// `keep` rows keeps the last kept set. A head of at most `keep` rows is scored once, as a whole.
///
/// The inner policy sees the candidates' positions and the evidence as given; policies that need
/// attention mass are refused, since it belongs to all rows. Copies `keep + block` rows of K and V
/// for each block, scores and sorts them: memory and cost of the inner policy at that length, once
/// a block.
template <class P>
struct BlockStreaming {
  P inner = {};
  std::int64_t keep = 1024;  ///< rows of a head that survive each block
  std::int64_t block = 128;  ///< rows that arrive together

  std::string_view name() const { return "BlockStreaming"; }
  constexpr EvidenceSet needs() const { return inner.needs(); }
  /// Ranks say nothing about other heads.
  bool comparable_across_heads() const { return false; }

  void validate() const {
    require(keep >= 1, "keep", keep, ">=", 1);
    require(block >= 1, "block", block, ">=", 1);
    require(!inner.needs().contains(EvidenceKind::attention_mass), "inner", inner.name(),
            "a policy without attention mass, which belongs to all rows", ErrorKind::unsupported);
    detail::validate_inner(inner);
  }

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>& cache, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    const RowLayout<> rows = cache.layout().host();
    const std::int64_t heads = rows.heads();
    WorkspaceScope scope(res.workspace());
    WorkspaceScope host_scope(res.host_workspace());
    detail::CarvedLayout<R> candidate_layout(res, scope, host_scope, heads);
    detail::CarvedLayout<R> chosen_layout(res, scope, host_scope, heads);
    const Buffers<T> buffers(scope, cache, total_of(rows, 0), std::min(keep, rows.longest()));
    const Evidence<R::space> of_some = evidence.without_known_keys();
    const std::int64_t last = stages(rows.longest());
    for (std::int64_t stage = 0; stage < last; ++stage) {
      const RowLayout<R::space> layout = candidate_layout.with(
          res, [&](std::int64_t h) { return candidates(rows.rows(h), stage); });
      const RowLayout<R::space> chosen = chosen_layout.with(
          res, [&](std::int64_t h) { return std::min(keep, candidates(rows.rows(h), stage)); });
      extend_candidates(res, layout, stage == 0 ? 0 : keep, stage == 0 ? 0 : keep + stage * block,
                        buffers.rows);
      score_candidates(res, cache, of_some, layout, buffers);
      const ScoreView<R::space> of_candidates{buffers.scores, layout};
      select_top(res, of_candidates, {}, {}, chosen, buffers.chosen);
      rank_scores(res, of_candidates, of_candidates);
      const float dropped = -1.0f / static_cast<float>(stage + 1);
      settle_candidates(res, of_candidates, SelectionView<R::space>{chosen, buffers.chosen},
                        dropped, buffers.rows, scores);
      if (res.workspace().counting()) return;  // no later stage has more rows
    }
  }

  template <class Self, class Visitor>
  static void parameters(Self& self, Visitor&& visit) {
    visit("keep", self.keep, "rows that survive each block");
    visit("block", self.block, "rows that arrive together");
    detail::visit_inner(self.inner, "inner.", visit);
  }

  friend bool operator==(const BlockStreaming&, const BlockStreaming&) = default;

 private:
  template <class T>
  struct Buffers {
    StreamedRows rows;
    T* keys;
    T* values;
    float* key_scales;
    float* value_scales;
    std::int32_t* positions;
    float* scores;
    std::int32_t* chosen;

    template <class Cache>
    Buffers(WorkspaceScope& scope, const Cache& cache, std::int64_t most, std::int64_t kept) {
      const std::int64_t heads = cache.heads();
      rows.keep = kept;
      rows.candidates = scope.template carve<std::int32_t>("BlockStreaming.candidates", most);
      rows.kept = scope.template carve<std::int32_t>("BlockStreaming.kept", heads * kept);
      keys = scope.template carve<T>("BlockStreaming.keys",
                                     most * cache.keys().dim() / channels_of<T>);
      values = scope.template carve<T>("BlockStreaming.values",
                                       most * cache.values().dim() / channels_of<T>);
      key_scales = scope.template carve<float>("BlockStreaming.key_scales",
                                               cache.keys().scaled_by_row() ? most : 0);
      value_scales = scope.template carve<float>("BlockStreaming.value_scales",
                                                 cache.values().scaled_by_row() ? most : 0);
      positions = scope.template carve<std::int32_t>("BlockStreaming.positions", most);
      scores = scope.template carve<float>("BlockStreaming.scores", most);
      chosen = scope.template carve<std::int32_t>("BlockStreaming.chosen", heads * kept);
    }
  };

  /// Blocks of a head after its first `keep` rows, at least one scoring.
  std::int64_t stages(std::int64_t rows) const {
    if (rows == 0) return 0;
    return rows <= keep ? 1 : (rows - keep + block - 1) / block;
  }
  /// Rows that are scored in a stage; none once a head's rows have all arrived.
  std::int64_t candidates(std::int64_t rows, std::int64_t stage) const {
    if (stage >= stages(rows)) return 0;
    return std::min(rows, keep) + std::clamp<std::int64_t>(rows - keep - stage * block, 0, block);
  }
  std::int64_t total_of(const RowLayout<>& rows, std::int64_t stage) const {
    std::int64_t total = 0;
    for (std::int64_t h = 0; h < rows.heads(); ++h) total += candidates(rows.rows(h), stage);
    return total;
  }

  /// Scores of the candidates by the inner policy, from a copy of their rows.
  template <class R, class T>
  void score_candidates(R& res, const KvView<const T, R::space>& cache,
                        const Evidence<R::space>& evidence, const RowLayout<R::space>& layout,
                        const Buffers<T>& buffers) const {
    const auto keys = cache.keys().packed_copies(buffers.keys, buffers.key_scales, layout);
    const auto values = cache.values().packed_copies(buffers.values, buffers.value_scales, layout);
    const auto positions = MutablePositions<R::space>::packed(buffers.positions);
    const SelectionView<R::space> taken{layout, buffers.rows.candidates};
    gather_rows(res, taken, cache.keys(), keys);
    gather_rows(res, taken, cache.values(), values);
    gather_positions(res, taken, cache.positions(), cache.layout(), positions, layout);
    const KvView<const T, R::space> copy = KvView<T, R::space>(keys, values, positions);
    inner.score(res, copy, evidence, ScoreView<R::space>{buffers.scores, layout});
  }
};

}  // namespace kvevict
