// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/row_pieces.hpp"
#include "kvevict/ops/gather.hpp"

namespace kvevict::cpu {

/// Copies `dim` channels as they are stored.
template <class T>
void copy_row(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
              std::int64_t dim) {
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes_of_row<T>(dim)));
    return;
  }
  for (std::int64_t c = 0; c < dim / channels_of<T>; ++c) to[c * to_stride] = from[c * from_stride];
}

template <class T>
void gather_rows_impl(Resources& res, SelectionView<> selection, const RowsView<const T>& from,
                      const RowsView<T>& to) {
  if (res.workspace().counting()) return;
  for_each_piece(res, selection.layout,
                 [&](std::int64_t h, std::int64_t begin, std::int64_t end, int) {
                   const auto source = from.head(h);
                   const auto target = to.head(h);
                   const std::int32_t* kept = selection.head(h);
                   for (std::int64_t j = begin; j < end; ++j) {
                     copy_row(source.row(kept[j]), source.channel_stride, target.row(j),
                              target.channel_stride, from.dim());
                   }
                 });
}

template <class T>
void compact_rows_impl(Resources& res, SelectionView<> selection, const RowsView<T>& rows) {
  if (res.workspace().counting()) return;
  res.parallel_for(selection.heads(), [&](std::int64_t h, int) {
    const auto head = rows.head(h);
    const std::int32_t* kept = selection.head(h);
    for (std::int64_t j = 0; j < selection.count(h); ++j) {
      if (kept[j] == j) continue;  // the front that stays in place
      copy_row<T>(head.row(kept[j]), head.channel_stride, head.row(j), head.channel_stride,
                  rows.dim());
    }
  });
}

inline void gather_positions_impl(Resources& res, SelectionView<> selection,
                                  const Positions<>& from, const RowLayout<>& from_layout,
                                  const Positions<MemorySpace::host, std::int32_t>& to,
                                  const RowLayout<>& to_layout) {
  if (res.workspace().counting()) return;
  res.parallel_for(selection.heads(), [&](std::int64_t h, int) {
    const auto source = from.row(h, from_layout);
    std::int32_t* target = to.row(h, to_layout).stored;
    const std::int32_t* kept = selection.head(h);
    for (std::int64_t j = 0; j < selection.count(h); ++j) target[j] = source[kept[j]];
  });
}

}  // namespace kvevict::cpu
