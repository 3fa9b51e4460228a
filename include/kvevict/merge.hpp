// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kvevict/core/kv_view.hpp"
#include "kvevict/ops/checks.hpp"
#include "kvevict/ops/gather.hpp"
#include "kvevict/ops/merge_rows.hpp"
#include "kvevict/ops/written_pages.hpp"

namespace kvevict {

// Merging: what is evicted leaves something of its values in the rows that stay. Between selection
// and compaction, in place: evict, merge, compact. Keys and positions do not change. Both forms are
// rules that look at no later query; `refit` fits the kept rows to probes instead.

/// Merges every evicted value into the kept row whose key is most similar, by its cosine and the
/// lengths of both values, as D2O does (arXiv 2406.13035); the weights and the two limits of
/// MergeOptions are those of MergingPress (NVIDIA kvpress). A value row becomes a weighted mean, so
/// that its length grows beyond none of those that went into it. Rows with a NaN, or whose length
/// overflows fp32, are left out.
///
/// Throws invalid_argument for options, for a selection of another cache and, on the host, for a
/// head that has a page twice or, evicting rows, keeps some in a page of another head; unsupported
/// for quantised values; nothing is changed then. For n kept of N rows 2 n
/// (N - n) dim flops, as long as the scores of a quadratic policy take; memory O(N).
template <class R, class T>
requires(!std::is_const_v<T>)  // values are written
    void merge_evicted(R& res, const typename R::selection_type& kept,
                       const KvView<T, R::space>& cache, const MergeOptions& options = {}) {
  detail::require_compactable(kept.view(), cache.layout());
  detail::require_mergeable(res, kept.view(), cache.values());
  merge_rows(res, kept.view(), RowsView<const T, R::space>(cache.keys()), cache.values(), options);
}

/// Merges an evicted value in equal parts into the kept rows behind it, with the probability that
/// its attention has to that of those rows, as CaM does ("CaM: Cache Merging for Memory-efficient
/// LLMs Inference", ICML 2024). `attention` [head][row] is what each row received, such as H2O's
/// mass or the scores of ProbeAttention, of all rows of the cache. Values add up: a row can grow.
///
/// Throws as merge_evicted does. At most span (N - n) dim additions a head; memory O(N).
template <class R, class T>
requires(!std::is_const_v<T>)  // values are written
    void merge_following(R& res, const typename R::selection_type& kept,
                         const KvView<T, R::space>& cache, ScoreView<R::space> attention,
                         const FollowingMergeOptions& options = {}) {
  detail::require_compactable(kept.view(), cache.layout());
  detail::require_scores(attention, cache.layout(), 1, "attention");
  detail::require_mergeable(res, kept.view(), cache.values());
  merge_following_rows(res, kept.view(), Positions<R::space>(cache.positions()), attention,
                       cache.values(), options);
}

}  // namespace kvevict
