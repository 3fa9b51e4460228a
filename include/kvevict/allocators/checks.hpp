// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "kvevict/core/error.hpp"
#include "kvevict/core/head_ranks.hpp"

namespace kvevict::detail {

/// Throws unless a floor and a cap can be.
inline void require_limits(std::int64_t floor, std::int64_t cap) {
  require(floor >= 0, "floor", floor, ">=", 0);
  require(cap >= floor, "cap", cap, ">= floor,", floor);
}

/// Heads of each of the groups that divide their rows, 0 meaning all heads; throws unless groups
/// and layers of `ranks` fit each other.
inline std::int64_t require_groups(std::int64_t heads, std::int64_t heads_per_group,
                                   std::string_view name, const HeadRanks& ranks) {
  require(heads_per_group >= 0, name, heads_per_group, ">=", 0);
  const std::int64_t group = heads_per_group == 0 ? heads : heads_per_group;
  require(heads == 0 || heads % group == 0, name, group, "a divisor of the heads,", heads);
  require_valid(ranks, heads);
  require(ranks.alone() || group % ranks.heads == 0, name, group, "a multiple of ranks.heads,",
          ranks.heads);
  return group;
}

/// The floor of a head: no rows where the budget gives none.
inline std::int64_t floor_of(std::int64_t share, std::int64_t floor) {
  return share == 0 ? 0 : floor;
}

}  // namespace kvevict::detail
