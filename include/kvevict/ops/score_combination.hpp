// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "kvevict/core/parameter.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// How scores of several policies become one.
enum class Combination {
  sum,  ///< weighted sum: on the whole good
  max,  ///< largest of the weighted scores: good to one of the policies (a union)
  min   ///< smallest of the weighted scores: good to all of them (an intersection)
};

inline std::span<const EnumName<Combination>> enum_names(Combination) {
  static constexpr EnumName<Combination> names[] = {
      {Combination::sum, "sum"}, {Combination::max, "max"}, {Combination::min, "min"}};
  return names;
}

/// scores[h][i] = mean of the scores of i's chunk: the rows of a head in chunks of `chunk`, the
/// last one with what is left. NaN makes its chunk NaN. In place, one pass.
template <class R>
void chunk_means(R& res, std::int64_t chunk, ScoreView<R::space> scores) {
  require(chunk >= 1, "chunk", chunk, ">=", 1);
  chunk_means_impl(res, chunk, scores);
}

/// scores[h][i] = weight * scores[h][i]
template <class R>
void scale_scores(R& res, float weight, ScoreView<R::space> scores) {
  require(std::isfinite(weight), "weight", weight, "finite");
  scale_scores_impl(res, weight, scores);
}

/// scores[h][i] = scores[h][i] combined with weight * more[h][i]. NaN of either is NaN.
template <class R>
void combine_scores(R& res, ScoreView<R::space> more, float weight, Combination combination,
                    ScoreView<R::space> scores) {
  require(std::isfinite(weight), "weight", weight, "finite");
  detail::require_scores(more, scores.layout, 1, "more");
  combine_scores_impl(res, more, weight, combination, scores);
}

/// scores[h][i] = (scores[h][i] - lowest_h + epsilon) * factors[h][i], lowest_h = the smallest
/// score of head h (NaN passed over) if `from_lowest`, else 0.
template <class R>
void multiply_scores(R& res, ScoreView<R::space> factors, double epsilon, bool from_lowest,
                     ScoreView<R::space> scores) {
  require(std::isfinite(epsilon), "epsilon", epsilon, "finite");
  detail::require_scores(factors, scores.layout, 1, "factors");
  multiply_scores_impl(res, factors, epsilon, from_lowest, scores);
}

/// Replaces the scores of the heads with chosen[head] != 0 by those of `other`; `chosen` is in host
/// memory and may change when the call returns.
template <class R>
void replace_heads(R& res, const std::uint8_t* chosen, ScoreView<R::space> other,
                   ScoreView<R::space> scores) {
  detail::require_scores(other, scores.layout, 1, "other");
  replace_heads_impl(res, chosen, other, scores);
}

}  // namespace kvevict
