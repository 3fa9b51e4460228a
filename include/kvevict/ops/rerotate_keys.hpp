// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/positions.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/math/rope.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

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
/// fit the keys, unsupported for quantised ones; they are untouched then. One read and one write of
/// the rows that turn.
template <class R, class T>
requires(!std::is_const_v<T>)  // keys are written
    void rerotate_keys(R& res, const RowsView<T, R::space>& keys, const Positions<R::space>& from,
                       const Positions<R::space>& to, const Rope& rope) {
  detail::require_elements<T>("keys");
  if (keys.layout().total() == 0) return;
  require_valid(rope, keys.dim());
  if constexpr (Element<T>) rerotate_keys_impl(res, keys, from, to, rope);
}

}  // namespace kvevict
