// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "kvevict/allocators/global.hpp"
#include "kvevict/decorators/blend.hpp"
#include "kvevict/evict.hpp"
#include "kvevict/policies/kvzip.hpp"
#include "kvevict/policies/probe_attention.hpp"
#include "kvevict/probes.hpp"
#include "kvevict/refit.hpp"

namespace kvevict {

/// A policy with what it was measured to be best with (bench/quality.md).
template <class P>
struct Recipe {
  P policy = {};
  /// For `future_probes`; next_position is the caller's.
  FutureProbesOptions probes = {};
  GlobalBudget allocator = {};
  std::optional<RefitOptions> refit = {};  ///< none: rows stay as they are
};

namespace recipes {

/// What queries to come ask for and what the context needs to be said again, by the sum of the
/// largest attention weights of both.
using ProbesAndReplay = Blend<ProbeAttention, KVzip>;

/// Attention of probes that stand for the future, one threshold over all heads. A pass of attention
/// over the cache with 192 queries for each query head.
inline Recipe<ProbeAttention> fast() { return {}; }

/// The same, and the kept rows are refitted so that the probes read from them what they read from
/// the whole cache.
inline Recipe<ProbeAttention> balanced() { return {.refit = RefitOptions{}}; }

/// The same with the last 512 queries among the probes (576 for each query head), at four to six
/// times the cost of the refit. Each of the thirteen texts on which it was compared, with half,
/// three quarters and nine tenths of the rows evicted, had less KL than SnapKV leaves; `balanced`
/// lost on two stories.
inline Recipe<ProbeAttention> careful() {
  return {.probes = {.last = 512}, .refit = RefitOptions{}};
}

/// With a replay of the context beside the probes: doubles the prefill, and is the only one that
/// keeps facts which the context does not ask for.
inline Recipe<ProbesAndReplay> thorough() {
  return {.policy = {.of = BlendOf::values}, .refit = RefitOptions{}};
}

}  // namespace recipes

/// Evicts, refits and compacts by a recipe, in place: head h of the cache holds kept.count(h) rows
/// afterwards. `evidence` has the probes that `recipe.probes` describes, and for `thorough` the
/// mass of a replay (KVzip::State). `accounts`, if given, gets how the refit of each head went.
///
/// Cache and positions are untouched when it throws, what evict_into, refit and compact throw.
/// Takes memory for the kept rows from the heap where it refits; on the CPU, as refit.
template <class R, class P, class T>
requires(!std::is_const_v<T>)  // compaction writes to the cache
    void evict_and_compact(R& res, typename R::selection_type& kept, const Recipe<P>& recipe,
                           const KvView<T, R::space>& cache, const Evidence<R::space>& evidence,
                           const Budget& budget, const Protect& protect = {},
                           std::vector<RefitHead>* accounts = nullptr) {
  if (recipe.refit) {
    require_evidence(evidence, {EvidenceKind::probes}, "a refit");
    detail::require_no_bias(*recipe.refit);
  }
  evict_into(res, kept, recipe.policy, cache, evidence, budget, protect, recipe.allocator);
  if (!recipe.refit) {
    compact(res, kept, cache);
    return;
  }
  std::vector<RefitHead> heads =
      refit_and_compact(res, kept, cache, *evidence.probes, *recipe.refit);
  if (accounts != nullptr) *accounts = std::move(heads);
}

}  // namespace kvevict
