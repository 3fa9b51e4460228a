// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/positions.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/math/rope.hpp"
#include "kvevict/ops/checks.hpp"
#include "kvevict/ops/written_pages.hpp"

namespace kvevict {

namespace detail {

/// Before the keys that change their position are written where they stand.
template <class R, class T>
void require_turnable(R& res, const RowsView<T, R::space>& keys, const Positions<R::space>& from,
                      const Positions<R::space>& to) {
  require_distinct_pages(res, keys);
  require_unshared_pages(res, keys, [&](std::int64_t h, const auto& use) {
    const PageRows page(keys.page_layout().rows);
    const auto before = from.row(h, keys.layout());
    const auto after = to.row(h, keys.layout());
    std::int64_t last = -1;
    for (std::int64_t row = 0; row < keys.rows(h); ++row) {
      const std::int64_t entry = page.page_of(row);
      if (entry == last || before[row] == after[row]) continue;
      use(entry);
      last = entry;
    }
  });
}

}  // namespace detail

/// Turns cached keys from the positions that they were rotated to, `from`, to others, in place:
/// k' = R(to - from) k with R the rotation of `rope`, as KeyRerotation does for the rows that an
/// eviction keeps (NVIDIA kvpress): `to` is then 0, 1, 2, ... and the cache looks as if nothing had
/// been evicted. Keys change, scores of earlier evidence do not follow, and positions are the
/// caller's to replace: a key turns from its stored position to a new one at once, since the
/// rounding of small steps would add up.
///
/// Angles, sines, cosines and products are in double; a key is rounded once to its type, and
/// saturates at its largest finite number (a turn can lengthen one channel of a pair by the square
/// root of two). A row that
/// stays where it is keeps its bits, and so do channels from `rotary_dim` on. `attention_factor` is
/// in the keys already and not applied again. Throws invalid_argument for a rotation that does not
/// fit the keys and, where page tables lie on the host, for a key that would turn in a page of
/// which another head has rows, unsupported for quantised keys; they are untouched then. One read
/// and one write of the rows that turn.
template <class R, class T>
requires(!std::is_const_v<T>)  // keys are written
    void rerotate_keys(R& res, const RowsView<T, R::space>& keys, const Positions<R::space>& from,
                       const Positions<R::space>& to, const Rope& rope) {
  detail::require_elements<T>("keys");
  if (keys.layout().total() == 0) return;
  require_valid(rope, keys.dim());
  detail::require_turnable(res, keys, from, to);
  if constexpr (Element<T>) rerotate_keys_impl(res, keys, from, to, rope);
}

}  // namespace kvevict
