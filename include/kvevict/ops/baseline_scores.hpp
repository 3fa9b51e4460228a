// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/positions.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// scores[h][i] = uniform random number in [0, 1) that depends on (seed, the head's number, the
/// row's position) only.
template <class R>
void random_scores(R& res, const Positions<R::space>& positions, std::uint64_t seed,
                   ScoreView<R::space> scores) {
  random_scores_impl(res, positions, seed, scores);
}

/// Scores that rank the rows at positions below `sinks` first, the lowest position first, and the
/// others by recency. Ranks are integers in fp32: throws unsupported for heads above 2^24 rows.
template <class R>
void recency_scores(R& res, const Positions<R::space>& positions, std::int64_t sinks,
                    ScoreView<R::space> scores) {
  require(sinks >= 0, "sinks", sinks, ">=", 0);
  require(scores.layout.longest() <= (std::int64_t{1} << 24), "rows", scores.layout.longest(),
          "at most 2^24 for scores that are ranks", ErrorKind::unsupported);
  recency_scores_impl(res, positions, sinks, scores);
}

}  // namespace kvevict
