// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/positions.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// Which evicted values are merged into the most similar kept row.
struct MergeOptions {
  /// Least cosine of the keys, in [0, 1].
  float threshold = 0.0f;
  /// Of a head's evicted rows the part that is most similar to what is kept, in (0, 1].
  double fraction = 1.0;

  friend bool operator==(const MergeOptions&, const MergeOptions&) = default;
};

/// How evicted values are merged into the kept rows behind them.
struct FollowingMergeOptions {
  /// Kept rows that share a value, >= 1.
  std::int64_t span = 32;
  /// Of the generator that decides which values are merged.
  std::uint64_t seed = 0;

  friend bool operator==(const FollowingMergeOptions&, const FollowingMergeOptions&) = default;
};

/// For each evicted row e of a head, t(e) = the kept row whose key is most similar, by the cosine
/// (the first of equals), and in place for each kept row j
///
///   v_j <- (v_j + sum over e with t(e) = j of w_e v_e) / (1 + sum of w_e)
///   w_e = cos(k_e, k_t) |v_e| / (|v_e| + |v_t| + 1e-6)   see merge_weight and merged_rows
///
/// with the lengths from before. Kept rows that receive nothing keep their bits, evicted ones too.
/// Cosines and lengths in fp32 (unit_scale says which keys are similar to none), sums in double in
/// the order of the rows; a result is rounded once to the type of the values.
template <class R, class T>
void merge_rows(R& res, SelectionView<R::space> kept, const RowsView<const T, R::space>& keys,
                const RowsView<T, R::space>& values, const MergeOptions& options) {
  detail::require_elements<T>("values");
  require(options.threshold >= 0.0f && options.threshold <= 1.0f, "threshold", options.threshold,
          "in [0, 1]");
  require(options.fraction > 0.0 && options.fraction <= 1.0, "fraction", options.fraction,
          "in (0, 1]");
  if constexpr (Element<T>) merge_rows_impl(res, kept, keys, values, options);
}

/// For each evicted row e, with the m kept rows behind it, at most `span`, in place
///
///   v_j <- v_j + v_e / m for those rows j, with probability attention_e / (mean of attention_j)
///
/// drawn by the seed, the head's number and the row's position (see following_share). Nothing is
/// merged where the attention of e, or of the rows behind it together, is not a number. Sums in
/// double in the order of the rows, rounded once; they saturate at the largest finite number of
/// their type.
template <class R, class T>
void merge_following_rows(R& res, SelectionView<R::space> kept,
                          const Positions<R::space>& positions, ScoreView<R::space> attention,
                          const RowsView<T, R::space>& values,
                          const FollowingMergeOptions& options) {
  detail::require_elements<T>("values");
  require(options.span >= 1, "span", options.span, ">=", 1);
  if constexpr (Element<T>) {
    merge_following_rows_impl(res, kept, positions, attention, values, options);
  }
}

}  // namespace kvevict
