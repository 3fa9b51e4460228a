// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// to[h][i] = from[h][i] for all rows i of `from`; `to` holds at least as many rows in each head,
/// does not overlap it and has its scales, if any: bits are copied, and with
/// them scales of rows.
template <class R, class T>
void copy_rows(R& res, const std::type_identity_t<RowsView<const T, R::space>>& from,
               const RowsView<T, R::space>& to) {
  require(from.heads() == to.heads(), "from.heads", from.heads(), "equal to", to.heads());
  detail::require_dim(from.dim(), to.dim(), "from.dim");
  detail::require_same_scales(from, to, "to.scales");
  const RowLayout<> rows = from.layout().host();
  const RowLayout<> room = to.layout().host();
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    require_for_head(rows.rows(h) <= room.rows(h), "from.rows", h, rows.rows(h),
                     "at most the rows of the target,", room.rows(h));
  }
  copy_rows_impl(res, from, to);
  detail::with_row_scales(
      [&](const auto& source, const auto& target) { copy_rows_impl(res, source, target); }, from,
      to);
}

}  // namespace kvevict
