// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// Rows of a head cut into partitions of `lag` rows by row order, from `skip_first` on; all but the
/// last whole one have a successor, their reference.
struct LagPartitions {
  std::int64_t skip_first = 0;
  std::int64_t lag = 1;

  /// Partitions that have a reference.
  KVEVICT_HOST_DEVICE std::int64_t scored(std::int64_t rows) const {
    const std::int64_t whole = rows > skip_first ? (rows - skip_first) / lag : 0;
    return whole > 1 ? whole - 1 : 0;
  }
  KVEVICT_HOST_DEVICE std::int64_t first_row(std::int64_t partition) const {
    return skip_first + partition * lag;
  }
};

namespace detail {

inline void require_valid_partitions(const LagPartitions& partitions) {
  require(partitions.skip_first >= 0, "skip_first", partitions.skip_first, ">=", 0);
  require(partitions.lag >= 1, "lag", partitions.lag, ">=", 1);
}

}  // namespace detail

/// out[h][i] = standard deviation (1/(n-1)) over the channels c of (x_c - min_c) / (max_c - min_c),
/// x the row and min, max the smallest and largest of each channel in the partition behind that of
/// the row; 0 for rows without one. Channels that are constant there are left out; fewer than two
/// left deviate by 0. Computed in double, at most the largest float. NaN in a partition makes it
/// and the one before it NaN. Reads the rows twice.
template <class R, class T>
void lag_deviation(R& res, const RowsView<T, R::space>& rows, const LagPartitions& partitions,
                   ScoreView<R::space> out) {
  detail::require_valid_partitions(partitions);
  detail::require_scores(out, rows.layout(), 1, "out");
  lag_deviation_impl(res, rows, partitions, out);
}

/// Scores from the deviations of keys and of values, which are overwritten. Within each partition
/// that has a reference s = (softmax(keys) + softmax(values)) / 2; scores are s, or with `ranks`
/// the number of rows of the partition that are worse (of equals the later one), divided by the
/// lag. All other rows get the largest of these. A head without such partitions is ranked by
/// recency, (i - skip_first) / (rows - skip_first), its first rows with the last.
template <class R>
void lag_scores(R& res, ScoreView<R::space> keys, ScoreView<R::space> values,
                const LagPartitions& partitions, bool ranks, ScoreView<R::space> scores) {
  detail::require_valid_partitions(partitions);
  detail::require_scores(keys, scores.layout, 1, "keys");
  detail::require_scores(values, scores.layout, 1, "values");
  lag_scores_impl(res, keys, values, partitions, ranks, scores);
}

}  // namespace kvevict
