// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kvevict/core/budget.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/core/protect.hpp"

namespace kvevict {

/// When a DecodeEvictor evicts, and how far. An eviction happens before rows are appended:
/// * when the limit would be exceeded: no head holds more than `head_limit` rows and all heads
///   together no more than heads x `row_limit`;
/// * when `interval` tokens have been seen since the last time.
/// It leaves each head (ragged: the heads on average) `target` rows, at most `row_limit - slack`
/// and no more than leave room for the incoming ones, but never fewer than are protected.
///
/// `head_limit` above `row_limit` makes the heads ragged: they share heads x row_limit rows,
/// divided by the allocator, and head_limit is what one of them may grow to: the room that the
/// engine has for a head. An allocator with a member `cap` is told of it; what another gives beyond
/// it is an error. Rows of its `floor`, if it has one, are kept like protected ones. Left out,
/// every head has the same limit of its own.
struct DecodeSchedule {
  std::int64_t row_limit = max_rows_per_head;
  /// An eviction makes room for this many rows, so that it pays for as many steps.
  std::int64_t slack = 0;
  std::int64_t head_limit = 0;  ///< rows of one head; 0: row_limit
  std::int64_t interval = 0;    ///< tokens; 0: only the limit counts
  /// Rows of each head, a ratio evicted of the tokens seen, or bytes of all heads together; none:
  /// row_limit - slack.
  std::optional<Budget> target = {};
  /// Of every eviction; none: what the policy is published with (suggested_protection).
  std::optional<Protect> protect = {};

  /// Throws invalid_argument for numbers outside their bounds, and a budget error for a limit below
  /// the sinks and recent rows of `protect`.
  void validate() const {
    require(row_limit >= 1, "row_limit", row_limit, ">=", 1);
    require(row_limit <= max_rows_per_head, "row_limit", row_limit, "<=", max_rows_per_head);
    require(slack >= 0, "slack", slack, ">=", 0);
    require(slack < row_limit, "slack", slack, "below row_limit,", row_limit);
    require(head_limit == 0 || head_limit >= row_limit, "head_limit", head_limit,
            "0 or at least row_limit,", row_limit);
    require(head_limit <= max_rows_per_head, "head_limit", head_limit, "<=", max_rows_per_head);
    require(interval >= 0, "interval", interval, ">=", 0);
    require(interval == 0 || target.has_value() || row_limit < max_rows_per_head, "target", "none",
            "given for an interval without row_limit");
    if (protect) require_limit_holds(*protect);
  }

  /// Throws as validate does, for protection that is or takes the place of `protect`.
  void require_limit_holds(const Protect& rows) const {
    require_valid(rows);
    require(rows.sinks <= row_limit && rows.recent <= row_limit - rows.sinks, "row_limit",
            row_limit, "at least the sinks and recent rows that are protected", ErrorKind::budget);
  }

  bool ragged() const { return head_limit > row_limit; }
  /// Rows that one head may hold.
  std::int64_t most_rows() const { return head_limit == 0 ? row_limit : head_limit; }
};

namespace detail {

/// What an eviction works on.
struct DecodeHeads {
  RowLayout<> rows;
  const std::int64_t* held;  ///< [heads] rows that must be kept
  std::int64_t row_bytes;
  std::int64_t tokens_seen;
  std::int64_t incoming;
};

/// Whether `incoming` more rows in every one of `heads` heads, the longest of which has `longest`
/// rows and all together `total`, would exceed the limit.
inline bool exceeds_limit(const DecodeSchedule& schedule, std::int64_t longest, std::int64_t total,
                          std::int64_t heads, std::int64_t incoming) {
  return longest + incoming > schedule.most_rows() ||
         total + heads * incoming > heads * schedule.row_limit;
}

/// Throws a budget error unless what must be kept and what comes in fit the limit together.
inline void require_limit_fits(const DecodeSchedule& schedule, const DecodeHeads& heads) {
  require(heads.incoming <= schedule.row_limit, "incoming", heads.incoming, "at most row_limit,",
          schedule.row_limit, ErrorKind::budget);
  std::int64_t total = 0;
  for (std::int64_t h = 0; h < heads.rows.heads(); ++h) {
    require_for_head(heads.held[h] + heads.incoming <= schedule.most_rows(),
                     "protected and incoming rows", h, heads.held[h] + heads.incoming,
                     "at most its limit,", schedule.most_rows(), ErrorKind::budget);
    total += heads.held[h] + heads.incoming;
  }
  require(total <= heads.rows.heads() * schedule.row_limit,
          "protected and incoming rows of all heads", total, "at most heads x row_limit,",
          heads.rows.heads() * schedule.row_limit, ErrorKind::budget);
}

/// shares[h] = the level that makes the shares sum to `total`, but at least held[h] and at most
/// min(rows, most); the first heads that can take one more share the remainder. Where all heads
/// together cannot hold `total`, each gets what it can; where they must hold more, what they must.
inline void share_rows(const DecodeHeads& heads, std::int64_t total, std::int64_t most,
                       std::int64_t* shares) {
  const std::int64_t count = heads.rows.heads();
  const auto at_level = [&](std::int64_t h, std::int64_t level) {
    return std::max(heads.held[h], std::min({level, most, heads.rows.rows(h)}));
  };
  const auto sum = [&](std::int64_t level) {
    std::int64_t all = 0;
    for (std::int64_t h = 0; h < count; ++h) all += at_level(h, level);
    return all;
  };
  std::int64_t low = 0;
  std::int64_t high = heads.rows.longest();
  while (low < high) {  // the highest level that the total pays for
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (sum(middle) <= total) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  std::int64_t left = std::max<std::int64_t>(total - sum(low), 0);
  for (std::int64_t h = 0; h < count; ++h) {
    shares[h] = at_level(h, low);
    if (left > 0 && at_level(h, low + 1) > shares[h]) {
      ++shares[h];
      --left;
    }
  }
}

/// Rows of each head that an eviction leaves, or, for ragged heads, that an allocator divides.
inline void plan_rows(const DecodeSchedule& schedule, const DecodeHeads& heads,
                      std::int64_t* shares) {
  const std::int64_t count = heads.rows.heads();
  const std::int64_t room = std::max(schedule.slack, heads.incoming);
  const std::int64_t most = schedule.row_limit - room;
  if (schedule.target) {
    schedule.target->shares(RowLayout<>::uniform(count, heads.tokens_seen), heads.row_bytes,
                            shares);
  } else {
    std::fill_n(shares, count, most);
  }
  if (!schedule.ragged()) {
    for (std::int64_t h = 0; h < count; ++h) {
      shares[h] = std::max(heads.held[h], std::min({shares[h], most, heads.rows.rows(h)}));
    }
    return;
  }
  std::int64_t total = 0;
  for (std::int64_t h = 0; h < count; ++h) total += std::min(shares[h], most);
  share_rows(heads, total, schedule.most_rows() - room, shares);
}

}  // namespace detail

}  // namespace kvevict
