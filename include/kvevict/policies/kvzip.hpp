// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kvevict/core/concepts.hpp"
#include "kvevict/ops/mass.hpp"
#include "kvevict/policies/h2o.hpp"

namespace kvevict {

/// Rows that the model needs to say its context again (KVzip, arXiv 2505.23416): score_i = the
/// largest attention weight that row i receives from any query of a replay, over the query heads of
/// the group. For the replay the engine lets the model read a prompt such as "Repeat the text
/// before:" and the context once more, behind the whole cache; a query's softmax runs over the
/// cached rows and the rows of the replay up to its own, which takes from a cached row what the
/// replay can read in itself. It doubles the prefill, needs no guess of the queries to come, and
/// keeps facts that no query of the context asks for.
///
///   KVzip::State state = KVzip::state();
///   for each chunk of the replay:
///     the engine runs it, its rows appended to the cache
///     state.observe(res, cache_with_replay, {queries, positions});   // post-RoPE
///   the engine drops the rows of the replay
///   evict(res, KVzip{}, cache, {.attention_mass = state.mass()}, budget, protect, GlobalBudget{});
///
/// The mass may hold more rows than the cache, those of the replay behind the context's; they are
/// left out. The published code sets sinks to 1: protect them. Beside it, for text that goes on:
/// Blend with ProbeAttention over future probes (bench/quality.md).
struct KVzip {
  using State = H2O::State;
  template <MemorySpace S>
  using BasicState = H2O::BasicState<S>;

  /// How the state accumulates.
  static H2O accumulation() { return {.accumulation = Accumulation::max}; }
  static State state() { return State(accumulation()); }

  std::string_view name() const { return "KVzip"; }
  EvidenceSet needs() const { return {EvidenceKind::attention_mass}; }
  /// Attention weights are.
  bool comparable_across_heads() const { return true; }
  void validate() const {}

  template <class R, class T>
  void score(R& res, const KvView<const T, R::space>&, const Evidence<R::space>& evidence,
             ScoreView<R::space> scores) const {
    copy_leading_mass(res, *evidence.attention_mass, scores);
  }

  template <class Self, class Visitor>
  static void parameters(Self&, Visitor&&) {}

  friend bool operator==(const KVzip&, const KVzip&) = default;
};

}  // namespace kvevict
