// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/cpu/gather.hpp"
#include "kvevict/cpu/row_pieces.hpp"
#include "kvevict/ops/copy_rows.hpp"

namespace kvevict::cpu {

template <class T>
void copy_rows_impl(Resources& res, const RowsView<const T>& from, const RowsView<T>& to) {
  if (res.workspace().counting()) return;
  for_each_piece(res, from.layout(),
                 [&](std::int64_t h, std::int64_t begin, std::int64_t end, int) {
                   const auto source = from.head(h);
                   const auto target = to.head(h);
                   for (std::int64_t i = begin; i < end; ++i) {
                     copy_row(source.row(i), source.channel_stride, target.row(i),
                              target.channel_stride, from.dim());
                   }
                 });
}

}  // namespace kvevict::cpu
