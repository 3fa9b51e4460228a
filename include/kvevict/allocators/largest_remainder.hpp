// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/core/error.hpp"

namespace kvevict {

namespace detail {

__extension__ typedef __int128 WideInteger;

}  // namespace detail

/// One of those among whom a number of rows is divided.
struct Quota {
  std::int64_t weight = 0;  ///< what it asks for, in a unit common to all; >= 0, below 2^52
  std::int64_t low = 0;     ///< rows that it gets at least
  std::int64_t high = 0;    ///< rows that it gets at most
  std::int64_t count = 0;   ///< rows that it gets: what `divide_rows` writes

  bool settled = false;               ///< scratch
  detail::WideInteger remainder = 0;  ///< scratch
};

/// Divides `total` rows in proportion to the weights, within the bounds of each quota:
///   x_i = clamp(t weight_i, low_i, high_i), t such that sum x_i = total,
/// rounded down, and the rows that are left go to the largest remainders, of equal ones to the
/// first. Weights that are all zero count as equal ones. In integers of 128 bits throughout: the
/// sum is exact, and the result depends on the numbers alone. Rounds as long as bounds are hit: at
/// most one for each quota, in practice a few; O(count) each. `order` is scratch for as many
/// numbers as there are quotas.
///
/// Throws a budget error when the lower bounds exceed the total or the upper ones
/// do not reach it.
inline void divide_rows(Quota* quotas, std::int64_t count, std::int64_t total,
                        std::int64_t* order) {
  using Wide = detail::WideInteger;
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    quotas[i].settled = false;
    lowest += quotas[i].low;
    highest += quotas[i].high;
  }
  require(lowest <= total, "least rows", lowest, "at most the total,", total, ErrorKind::budget);
  require(highest >= total, "most rows", highest, "at least the total,", total, ErrorKind::budget);
  // Those whose share lies beyond a bound get the bound, on the side that is beyond by more; that
  // cannot bring one of them back inside.
  Wide weights = 0;
  std::int64_t left = total;
  for (bool changed = true; changed;) {
    changed = false;
    weights = 0;
    left = total;
    for (std::int64_t i = 0; i < count; ++i) {
      if (quotas[i].settled) {
        left -= quotas[i].count;
      } else {
        weights += quotas[i].weight;
      }
    }
    if (weights == 0) {
      for (std::int64_t i = 0; i < count; ++i) {
        if (quotas[i].settled) continue;
        quotas[i].weight = 1;
        ++weights;
      }
    }
    Wide below = 0;
    Wide above = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (quotas[i].settled) continue;
      const Wide share = Wide{left} * quotas[i].weight;
      below += std::max<Wide>(quotas[i].low * weights - share, 0);
      above += std::max<Wide>(share - quotas[i].high * weights, 0);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (quotas[i].settled) continue;
      const Wide share = Wide{left} * quotas[i].weight;
      const bool is_below = below >= above && share < quotas[i].low * weights;
      const bool is_above = above >= below && share > quotas[i].high * weights;
      if (!is_below && !is_above) continue;
      quotas[i].count = is_below ? quotas[i].low : quotas[i].high;
      quotas[i].settled = true;
      changed = true;
    }
  }
  std::int64_t open = 0;
  const std::int64_t shared = left;
  for (std::int64_t i = 0; i < count; ++i) {
    if (quotas[i].settled) continue;
    const Wide share = Wide{shared} * quotas[i].weight;
    quotas[i].count = static_cast<std::int64_t>(share / weights);
    quotas[i].remainder = share % weights;
    left -= quotas[i].count;
    order[open++] = i;
  }
  if (left == 0) return;
  std::nth_element(order, order + left - 1, order + open, [&](std::int64_t a, std::int64_t b) {
    if (quotas[a].remainder != quotas[b].remainder) {
      return quotas[a].remainder > quotas[b].remainder;
    }
    return a < b;
  });
  for (std::int64_t i = 0; i < left; ++i) ++quotas[order[i]].count;
}

}  // namespace kvevict
