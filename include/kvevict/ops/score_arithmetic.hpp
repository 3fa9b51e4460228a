// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/core/row_range.hpp"
#include "kvevict/ops/checks.hpp"
#include "kvevict/ops/group_reduction.hpp"

namespace kvevict {

namespace detail {

/// What standardised scores are divided by; NaN for a NaN.
KVEVICT_HOST_DEVICE inline double standard_unit(double mean, double deviation) {
  const double size = 1e-4 * (mean < 0.0 ? -mean : mean);
  const double floor = size > 1e-6 ? size : 1e-6;
  return deviation < floor ? floor : deviation;
}

}  // namespace detail

/// In place: every score becomes its share of the sum over its window, the windows being `window`
/// consecutive rows each (0: all rows of the head) counted from the first; the last one may be
/// shorter. In the square-root domain scores are roots and the shares those of their squares.
/// Shares of a window that sums to 0 are 0; a NaN, or an infinity, makes its window NaN. Sums in
/// double. The domain is linear or square_root.
template <class R>
void window_shares(R& res, ScoreView<R::space> scores, std::int64_t window,
                   ReductionDomain domain) {
  require(window >= 0, "window", window, ">=", 0);
  require(domain != ReductionDomain::logarithm, "domain", "logarithm", "linear or square_root");
  window_shares_impl(res, scores, window, domain);
}

/// In place: the scores of the rows of the range become (x - mean) / max(s, 1e-6, 1e-4 |mean|),
/// with the mean and the standard deviation s (1/(n-1); 0 for a single row) over these rows of the
/// head; others become 0. The floors keep the rounding of scores that are all alike from counting
/// as their differences. In double.
template <class R>
void standardise(R& res, const RowRange& range, ScoreView<R::space> scores) {
  require_valid(range);
  standardise_impl(res, range, scores);
}

}  // namespace kvevict
