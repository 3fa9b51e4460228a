// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "kvevict/core/config.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/core/scores.hpp"

namespace kvevict {

/// How it is measured over how many rows a head's scores are spread.
enum class Spread {
  entropy,  ///< exp(-sum p_i log p_i)
  variance  ///< 1 / sum p_i^2 = N / (1 + N^2 Var p)
};

inline std::span<const EnumName<Spread>> enum_names(Spread) {
  static constexpr EnumName<Spread> names[] = {{Spread::entropy, "entropy"},
                                               {Spread::variance, "variance"}};
  return names;
}

namespace detail {

/// Sums over the masses of one head, each divided by the largest.
struct SpreadSums {
  double mass = 0.0;      ///< sum x
  double weighted = 0.0;  ///< sum x log x, or sum x^2
};

KVEVICT_HOST_DEVICE inline double rows_of_spread(Spread spread, const SpreadSums& sums,
                                                 std::int64_t rows) {
  if (!(sums.mass > 0.0)) return static_cast<double>(rows);  // all zero: as if all were equal
  return spread == Spread::entropy ? sums.mass * std::exp(-sums.weighted / sums.mass)
                                   : sums.mass * sums.mass / sums.weighted;
}

/// What a mass adds to `SpreadSums::weighted`.
KVEVICT_HOST_DEVICE inline double spread_term(Spread spread, double x) {
  if (spread == Spread::variance) return x * x;
  return x > 0.0 ? x * std::log(x) : 0.0;
}

}  // namespace detail

/// out[h] = number of rows, between 1 and the rows of head h, over which its scores are spread:
/// that of equal scores with the same entropy or variance. p_i is the score as a part of the sum,
/// scores taken as masses as in `remaining_mass`; scores that are all zero count as equal. `out` is
/// in host memory: a device is waited for. One read of the scores after that for their largest.
template <class R>
void effective_rows(R& res, ScoreView<R::space> scores, Spread spread, double* out) {
  effective_rows_impl(res, scores, spread, out);
}

}  // namespace kvevict
