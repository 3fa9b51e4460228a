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
      copy_row(&source(i, 0), source.stride[1], &target(i, 0), target.stride[1], from.dim());
    }
  });
}

}  // namespace kvevict::cpu
