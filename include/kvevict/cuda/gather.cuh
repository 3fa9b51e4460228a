// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kvevict/cuda/row_moves.cuh"
#include "kvevict/ops/gather.hpp"

namespace kvevict::cuda {

namespace detail {

/// Copies kept rows [first, first + count) of a head, in units.
template <class Unit>
__device__ void copy_rows(const std::int32_t* kept, std::int64_t first, int count,
                          const RowUnits<const Unit>& from, const RowUnits<Unit>& to) {
  constexpr int ahead = 4;  // loads of a thread on their way
  const int items = count * from.units;
  for (int begin = static_cast<int>(threadIdx.x); begin < items; begin += ahead * move_threads) {
    Unit held[ahead];
    KVEVICT_UNROLL
    for (int k = 0; k < ahead; ++k) {
      const int i = begin + k * move_threads;
      if (i < items) held[k] = from(kept[first + i / from.units], i % from.units);
    }
    KVEVICT_UNROLL
    for (int k = 0; k < ahead; ++k) {
      const int i = begin + k * move_threads;
      if (i < items) to(first + i / from.units, i % from.units) = held[k];
    }
  }
}

/// One block for each tile of the kept rows of a head; those before `first_of_head[head]` are left
/// out, none where it is null. No row that is written may be one that is read.
template <class T>
__global__ void __launch_bounds__(move_threads)
    gather_tiles(SelectionView<MemorySpace::device> selection, const std::int64_t* first_of_head,
                 RowsView<const T, MemorySpace::device> from, RowsView<T, MemorySpace::device> to,
                 std::int64_t tiles, std::int64_t tile_rows) {
  const std::int64_t head = blockIdx.x / tiles;
  const std::int64_t skipped = first_of_head != nullptr ? first_of_head[head] : 0;
  const std::int64_t first = skipped + blockIdx.x % tiles * tile_rows;
  const std::int64_t left = selection.count(head) - first;
  if (left <= 0) return;
  const int count = static_cast<int>(left < tile_rows ? left : tile_rows);
  const std::int32_t* kept = selection.head(head);
  const HeadView<const T, MemorySpace::device> source = from.head(head);
  const HeadView<T, MemorySpace::device> target = to.head(head);
  if (in_whole_pieces(source) && in_whole_pieces(target)) {
    copy_rows<Piece>(kept, first, count, RowUnits<const Piece>(source), RowUnits<Piece>(target));
  } else {
    using Unit = MoveUnit<T>;
    copy_rows<Unit>(kept, first, count, RowUnits<const Unit>(source), RowUnits<Unit>(target));
  }
}

template <class T>
void enqueue_gather(Resources& res, const char* name,
                    const SelectionView<MemorySpace::device>& selection,
                    const std::int64_t* first_of_head,
                    const RowsView<const T, MemorySpace::device>& from,
                    const RowsView<T, MemorySpace::device>& to) {
  // About 64 KiB for a block.
  const std::int64_t tile_rows = std::max<std::int64_t>(1, 65536 / bytes_of_row<T>(from.dim()));
  const std::int64_t tiles = tiles_of(selection.layout.longest(), tile_rows);
  launch(res, name, gather_tiles<T>, selection.heads() * tiles, move_threads, 0, selection,
         first_of_head, from, to, tiles, tile_rows);
}

/// Compaction in place of what a walk has to move: one block for each slice of the channels of a
/// head. Two kinds of rows are left out: a front that stays where it is, and, from
/// `first_free[head]` on, which is written, rows whose sources lie behind all destinations: those
/// move in any order.
template <class T>
__global__ void __launch_bounds__(walk_threads)
    walk_rows(SelectionView<MemorySpace::device> selection, RowsView<T, MemorySpace::device> rows,
              int slices, std::int64_t* first_free) {
  const std::int64_t head = blockIdx.x / static_cast<unsigned>(slices);
  const auto slice = static_cast<int>(blockIdx.x % static_cast<unsigned>(slices));
  const std::int64_t count = selection.count(head);
  const std::int32_t* kept = selection.head(head);
  const std::int64_t moved =
      partition_point<walk_threads>(0, count, [&](std::int64_t j) { return kept[j] == j; });
  const std::int64_t free =
      partition_point<walk_threads>(moved, count, [&](std::int64_t j) { return kept[j] < count; });
  if (slice == 0 && threadIdx.x == 0) first_free[head] = free;
  const HeadView<T, MemorySpace::device> place = rows.head(head);
  const auto walk = [&](auto units) {
    units.cut(slice, slices);
    walk_forward<std::remove_reference_t<decltype(units(0, 0))>>(
        moved, free, units.units, [&](std::int64_t j, int unit) { return units(kept[j], unit); },
        [&](std::int64_t j, int unit, const auto& value) { units(j, unit) = value; });
  };
  if (in_whole_pieces(place)) {
    walk(RowUnits<Piece>(place));
  } else {
    walk(RowUnits<MoveUnit<T>>(place));
  }
}

/// One block for each head.
static __global__ void __launch_bounds__(walk_threads)
    walk_positions(SelectionView<MemorySpace::device> selection,
                   Positions<MemorySpace::device> from, RowLayout<MemorySpace::device> from_layout,
                   MutablePositions<MemorySpace::device> to,
                   RowLayout<MemorySpace::device> to_layout) {
  const std::int64_t head = blockIdx.x;
  const std::int32_t* kept = selection.head(head);
  const PositionRow<> source = from.row(head, from_layout);
  std::int32_t* target = to.row(head, to_layout).stored;
  walk_forward<std::int32_t>(
      0, selection.count(head), 1, [&](std::int64_t j, int) { return source[kept[j]]; },
      [&](std::int64_t j, int, std::int32_t value) { target[j] = value; });
}

}  // namespace detail

/// One read and one write of the kept rows, at the speed of memory.
template <class T>
void gather_rows_impl(Resources& res, SelectionView<MemorySpace::device> selection,
                      const RowsView<const T, MemorySpace::device>& from,
                      const RowsView<T, MemorySpace::device>& to) {
  if (res.workspace().counting()) return;
  detail::enqueue_gather(res, "gather_rows", selection, nullptr, from, to);
}

/// One read and one write of the rows that move. Of n kept rows those whose source lies behind
/// row n, three quarters when a quarter is kept evenly, move in any order, by as many blocks as
/// there are; the others move first, in order, by one block for each slice of channels of a head.
template <class T>
void compact_rows_impl(Resources& res, SelectionView<MemorySpace::device> selection,
                       const RowsView<T, MemorySpace::device>& rows) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t heads = selection.heads();
  auto* first_free = scope.carve<std::int64_t>("compact_rows.first_free", heads);
  if (res.workspace().counting() || selection.layout.total() == 0) return;
  const int slices = detail::walk_slices(res, heads, bytes_of_row<T>(rows.dim()));
  launch(res, "compact_rows.walk", detail::walk_rows<T>, heads * slices, detail::walk_threads, 0,
         selection, rows, slices, first_free);
  detail::enqueue_gather(res, "compact_rows", selection, first_free,
                         RowsView<const T, MemorySpace::device>(rows), rows);
}

inline void gather_positions_impl(Resources& res, SelectionView<MemorySpace::device> selection,
                                  const Positions<MemorySpace::device>& from,
                                  const RowLayout<MemorySpace::device>& from_layout,
                                  const MutablePositions<MemorySpace::device>& to,
                                  const RowLayout<MemorySpace::device>& to_layout) {
  if (res.workspace().counting() || selection.layout.total() == 0) return;
  launch(res, "gather_positions", detail::walk_positions, selection.heads(), detail::walk_threads,
         0, selection, from, from_layout, to, to_layout);
}

}  // namespace kvevict::cuda
