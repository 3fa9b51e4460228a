// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/concepts.hpp"
#include "kvevict/core/head_ranks.hpp"
#include "kvevict/ops/select_top.hpp"

namespace kvevict {

/// One threshold over all heads given (all layers of a model, if they are): the protected rows of
/// every head and the best-scored others survive, in total what the heads' shares sum to. Heads
/// that need many rows take them from heads that need few, which only pays with storage that is
/// ragged. Order: score descending, then head, then row; NaN lowest.
///
/// Meaningful for scores that are comparable across heads only: others are refused with an
/// unsupported error unless `allow_incomparable`. Throws a budget error when protected rows and
/// floors exceed the total, or caps stay below it.
struct GlobalBudget {
  std::int64_t floor = 1;  ///< rows that every head keeps at least, protected ones included
  std::int64_t cap = max_rows_per_head;  ///< rows that a head keeps at most
  bool allow_incomparable = false;
  HeadRanks ranks = {};  ///< heads of every layer spread over processes

  template <class R>
  void allocate(R& res, const AllocationInput<R::space>& input, std::int64_t* counts) const {
    require(input.comparable_across_heads || allow_incomparable, "GlobalBudget.allow_incomparable",
            false, "true for a policy whose scores are not comparable across heads",
            ErrorKind::unsupported);
    std::int64_t total = 0;
    for (std::int64_t h = 0; h < input.scores.layout.heads(); ++h) total += input.shares[h];
    std::int64_t all = total;
    if (!res.workspace().counting()) {
      require_valid(ranks, input.scores.layout.heads());
      ranks.add(&all, 1);
    }
    // An explicit budget of zero rows leaves no room for the default floor.
    global_counts(res, input, total, all == 0 ? 0 : floor, cap, counts, ranks);
  }

  friend bool operator==(const GlobalBudget&, const GlobalBudget&) = default;
};

}  // namespace kvevict
