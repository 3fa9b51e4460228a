// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/ops/gather.hpp"
#include "kvevict/ops/written_pages.hpp"

namespace kvevict {

namespace detail {

/// Throws unless the cache can be compacted to the selection: what `compact` checks.
template <class R, class T>
void require_compaction(R& res, const typename R::selection_type& kept,
                        const KvView<T, R::space>& cache) {
  require_compactable(kept.view(), cache.layout());
  require(!cache.positions().is_shared() || cache.heads() <= 1, "cache.positions",
          "shared by all heads", "packed or per head, since heads keep different rows",
          ErrorKind::unsupported);
  require_movable(res, kept.view(), cache.keys());
  require_movable(res, kept.view(), cache.values());
}

/// What `compact` does when it has checked.
template <class R, class T>
void move_kept_rows(R& res, const typename R::selection_type& kept,
                    const KvView<T, R::space>& cache) {
  compact_rows(res, kept.view(), cache.keys());
  compact_rows(res, kept.view(), cache.values());
  if (cache.positions().stored()) {
    gather_positions(res, kept.view(), Positions<R::space>(cache.positions()), cache.layout(),
                     cache.positions(), cache.layout());
  }
}

}  // namespace detail

/// Moves the kept rows of every head, and with them scales of rows and positions, if the view has
/// them, to the head's front. Every head keeps its place: head h of the view holds kept.count(h)
/// rows afterwards, and what lies behind them is stale. Positions that are consecutive are not
/// stored: after compaction they are `first + kept index`. In place: a destination never passes its
/// source. One read and one write of the rows that move; nothing is allocated.
///
/// A paged cache keeps its page tables; `freed_pages` tells which pages hold no row any more.
/// Sequences may share pages, such as those of a common prefix, as long as no row is moved into one
/// of them: a kept front stays where it is. On the host a row that would be moved into a page in
/// which another head of the view has rows, at the same place of the same pool, is an error; copy
/// such pages first. Pages shared with sequences outside the view, and on a device all of them, are
/// the caller's to know.
///
/// Throws invalid_argument for a selection of another cache or, on the host, for a head that has a
/// page twice or moves rows into one that another head has, and unsupported for positions that
/// several heads share; cache and positions are untouched then. On a device the work is enqueued.
template <class R, class T>
requires(!std::is_const_v<T>)  // compaction writes to the cache
    void compact(R& res, const typename R::selection_type& kept, const KvView<T, R::space>& cache) {
  detail::require_compaction(res, kept, cache);
  detail::move_kept_rows(res, kept, cache);
}

/// Copies the kept rows into another cache, which holds kept.count(h) rows in each head and does
/// not overlap the first. Rows are copied as they are stored, and with them scales of rows; those
/// of heads, if any, are one table for both. Positions are written when the target stores them.
/// Throws invalid_argument when shapes do not fit or, on the host, two places of the target's page
/// tables name one page, and unsupported for other scales; the target is untouched then.
template <class R, class T>
void compact_into(R& res, const typename R::selection_type& kept,
                  const std::type_identity_t<KvView<const T, R::space>>& from,
                  const KvView<T, R::space>& to) {
  detail::require_compactable(kept.view(), from.layout());
  require(same_rows(to.layout(), kept.layout()), "to.rows", "different",
          "the selection's count in every head");
  require(to.keys().dim() == from.keys().dim(), "to.keys.dim", to.keys().dim(), "equal to",
          from.keys().dim());
  require(to.values().dim() == from.values().dim(), "to.values.dim", to.values().dim(), "equal to",
          from.values().dim());
  require(!to.positions().is_shared() || to.heads() <= 1, "to.positions", "shared by all heads",
          "packed or per head, since heads keep different rows", ErrorKind::unsupported);
  detail::require_same_scales(from.keys(), to.keys(), "to.keys.scales");
  detail::require_same_scales(from.values(), to.values(), "to.values.scales");
  detail::require_writable(res, to.layout(), to.keys());
  detail::require_writable(res, to.layout(), to.values());
  gather_rows(res, kept.view(), from.keys(), to.keys());
  gather_rows(res, kept.view(), from.values(), to.values());
  if (to.positions().stored()) {
    gather_positions(res, kept.view(), from.positions(), from.layout(), to.positions(),
                     to.layout());
  }
}

}  // namespace kvevict
