// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvevict/core/error.hpp"
#include "kvevict/core/head_ranks.hpp"
#include "kvevict/core/row_layout.hpp"

namespace kvevict {

/// How few and how many rows a head may keep.
struct HeadLimits {
  std::int64_t floor = 0;
  std::int64_t cap = 0;
};

/// Groups of consecutive heads, each with a number of rows of its own to divide.
struct ThresholdGroups {
  std::int64_t heads = 0;                ///< of a group in this process; divides all heads
  const std::int64_t* totals = nullptr;  ///< [groups] rows for the group's heads in this process
  const HeadLimits* limits = nullptr;    ///< [heads of all groups]
  HeadRanks ranks = {};

  /// Number of groups, `all` being the heads in this process.
  std::int64_t count(std::int64_t all) const { return heads == 0 ? 0 : all / heads; }
};

namespace detail {

/// Bounds of one head's count in a global allocation, and what is known of its rows so far.
struct GlobalHead {
  std::int64_t low;    ///< floor, or protected rows if more
  std::int64_t high;   ///< cap, or rows if fewer
  std::int64_t above;  ///< protected rows and open rows with a key above the digits fixed so far
  std::int64_t equal;  ///< open rows with the digit that was fixed last

  KVEVICT_HOST_DEVICE std::int64_t clamped(std::int64_t count) const {
    return count < low ? low : (count > high ? high : count);
  }
};

inline std::string of_group(std::string_view what, std::int64_t group, std::int64_t groups) {
  std::string name(what);
  if (groups > 1) name.append(" of group ").append(text_of(group));
  return name;
}

/// Throws a budget error unless `lowest` <= `total` <= `highest` rows of one of several groups.
inline void require_total_fits(std::int64_t lowest, std::int64_t total, std::int64_t highest,
                               std::int64_t group, std::int64_t groups) {
  if (lowest <= total && total <= highest) return;
  require(lowest <= total, of_group("protected rows and floors", group, groups), lowest,
          "at most the budget's rows,", total, ErrorKind::budget);
  require(highest >= total, of_group("rows within the caps", group, groups), highest,
          "at least the budget's rows,", total, ErrorKind::budget);
}

/// Host memory that a threshold over groups needs beside its heads, in numbers: for the sums over
/// each group, or for two numbers of every head.
inline std::int64_t threshold_scratch(const ThresholdGroups& groups, std::int64_t heads) {
  return std::max(3 * groups.count(heads), 2 * groups.ranks.all_heads(heads));
}

/// Writes where every head starts, `held` being its protected rows, and the rows of every group
/// over all processes. Throws a budget error when floors exceed them or caps do not reach them.
inline void start_global_heads(const RowLayout<>& layout, const std::int64_t* held,
                               const ThresholdGroups& groups, GlobalHead* heads,
                               std::int64_t* totals, std::int64_t* scratch) {
  const std::int64_t count = groups.count(layout.heads());
  std::fill_n(scratch, 3 * count, 0);
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    const std::int64_t rows = layout.rows(h);
    heads[h].low = std::max(held[h], std::min(groups.limits[h].floor, rows));
    heads[h].high = std::max(heads[h].low, std::min(groups.limits[h].cap, rows));
    heads[h].above = held[h];
    heads[h].equal = 0;
    std::int64_t* sums = scratch + 3 * (h / groups.heads);
    sums[0] += heads[h].low;
    sums[2] += heads[h].high;
  }
  for (std::int64_t g = 0; g < count; ++g) scratch[3 * g + 1] = groups.totals[g];
  groups.ranks.add(scratch, 3 * count);
  for (std::int64_t g = 0; g < count; ++g) {
    const std::int64_t* sums = scratch + 3 * g;
    require_total_fits(sums[0], sums[1], sums[2], g, count);
    totals[g] = sums[1];
  }
}

/// The counts once all digits are fixed: rows equal to the threshold fill up the heads of each
/// group in order.
inline void finish_global_heads(const GlobalHead* heads, std::int64_t local,
                                const ThresholdGroups& groups, const std::int64_t* totals,
                                std::int64_t* counts, std::int64_t* scratch) {
  const std::int64_t all = groups.ranks.all_heads(local);
  std::int64_t* kept = scratch;
  std::int64_t* reachable = scratch + all;
  const auto sure = [&](std::int64_t h) { return heads[h].clamped(heads[h].above); };
  const auto with_ties = [&](std::int64_t h) {
    return heads[h].clamped(heads[h].above + heads[h].equal);
  };
  groups.ranks.gather(local, sure, kept);
  groups.ranks.gather(local, with_ties, reachable);
  const std::int64_t count = groups.count(local);
  for (std::int64_t g = 0; g < count; ++g) {
    const std::int64_t begin = all / count * g;
    const std::int64_t end = all / count * (g + 1);
    std::int64_t left = totals[g];
    for (std::int64_t h = begin; h < end; ++h) left -= kept[h];
    for (std::int64_t h = begin; h < end && left > 0; ++h) {
      const std::int64_t more = std::min(left, reachable[h] - kept[h]);
      kept[h] += more;
      left -= more;
    }
  }
  for (std::int64_t h = 0; h < local; ++h) counts[h] = kept[groups.ranks.global_head(h)];
}

}  // namespace detail

}  // namespace kvevict
