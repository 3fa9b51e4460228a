// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/cpu/gather.hpp"
#include "kvevict/ops/copy_rows.hpp"

namespace kvevict::cpu {

template <class T>
void copy_rows_impl(Resources& res, const RowsView<const T>& from, const RowsView<T>& to) {
  if (res.workspace().counting()) return;
  res.parallel_for(from.heads(), [&](std::int64_t h, int) {
    const auto source = from.head(h);
    const auto target = to.head(h);
    for (std::int64_t i = 0; i < from.rows(h); ++i) {
      copy_row(source.row(i), source.channel_stride, target.row(i), target.channel_stride,
               from.dim());
    }
  });
}

}  // namespace kvevict::cpu
