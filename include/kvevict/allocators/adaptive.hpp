// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/allocators/checks.hpp"
#include "kvevict/allocators/threshold_division.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/core/head_ranks.hpp"

namespace kvevict {

/// One threshold over the heads of each layer (AdaKV, arXiv 2407.11550): what the heads' shares sum
/// to is kept of the layer's best rows, and every head keeps at least
///   min(cap, max(floor, trunc(safeguard * share))) rows
/// (none where its share is none): the safeguard of kvpress' AdaKVPress. Order: score descending,
/// then head, then row; NaN lowest. Protected rows count, and are kept beyond the cap too.
///
/// Meaningful for scores that are comparable across heads only: others are refused with an
/// unsupported error unless `allow_incomparable`. Throws a budget error when protected rows and
/// floors of a layer exceed its total, or caps stay below it. All layers are divided at once: a
/// device is waited for once.
struct AdaptiveBudget {
  std::int64_t heads_per_layer = 0;  ///< heads of a layer of a sequence; 0: all heads are of one
  double safeguard = 0.2;            ///< part of its share that every head keeps
  std::int64_t floor = 1;            ///< rows that every head keeps at least, protected included
  std::int64_t cap = max_rows_per_head;  ///< rows that a head keeps at most
  bool allow_incomparable = false;
  HeadRanks ranks = {};  ///< heads of a layer spread over processes

  template <class R>
  void allocate(R& res, const AllocationInput<R::space>& input, std::int64_t* counts) const {
    require(input.comparable_across_heads || allow_incomparable,
            "AdaptiveBudget.allow_incomparable", false,
            "true for a policy whose scores are not comparable across heads",
            ErrorKind::unsupported);
    const std::int64_t heads = input.scores.layout.heads();
    require(safeguard >= 0.0 && safeguard <= 1.0, "safeguard", safeguard, "in [0, 1]");
    detail::require_limits(floor, cap);
    const std::int64_t group =
        detail::require_groups(heads, heads_per_layer, "heads_per_layer", ranks);
    const auto least = [&](std::int64_t share) {
      return std::max(detail::floor_of(share, floor),
                      static_cast<std::int64_t>(safeguard * static_cast<double>(share)));
    };
    detail::divide_by_threshold(res, input, group, least, cap, ranks, counts);
  }

  friend bool operator==(const AdaptiveBudget&, const AdaptiveBudget&) = default;
};

}  // namespace kvevict
