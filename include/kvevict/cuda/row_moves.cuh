// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/load.cuh"
#include "kvevict/cuda/search.cuh"

namespace kvevict::cuda::detail {

inline constexpr int move_threads = 128;
inline constexpr int walk_threads = 256;
/// Units that a thread of a walk holds at a time.
inline constexpr int walk_units = 8;

/// What rows that are not in whole pieces are moved by: elements, or the 16-bit words of blocks,
/// whose alignment is that of their scale.
template <class T>
using MoveUnit =
    std::conditional_t<BlockStorage<std::remove_const_t<T>>,
                       std::conditional_t<std::is_const_v<T>, const std::uint16_t, std::uint16_t>,
                       T>;

/// The rows of a head as units that are copied whole: 16-byte pieces, or smaller ones where rows
/// are not in whole pieces.
template <class Unit>
struct RowUnits {
  HeadView<Unit, MemorySpace::device> head;  ///< in units
  int units;                                 ///< of a row

  template <class T>
  __device__ explicit RowUnits(const HeadView<T, MemorySpace::device>& of) {
    const auto in_units = [](std::int64_t count) {
      return count * static_cast<std::int64_t>(sizeof(T)) / static_cast<std::int64_t>(sizeof(Unit));
    };
    head.data = reinterpret_cast<Unit*>(of.data);
    head.row_stride = in_units(of.row_stride);
    head.channel_stride = sizeof(Unit) == sizeof(T) ? of.channel_stride : 1;
    head.page_ids = of.page_ids;
    head.page_stride = in_units(of.page_stride);
    head.page = of.page;
    units = static_cast<int>(in_units(of.dim / channels_of<T>));
  }

  __device__ Unit& operator()(std::int64_t row, int unit) const { return head(row, unit); }

  /// Keeps one of several slices of the channels.
  __device__ void cut(int slice, int slices) {
    const auto start = static_cast<int>(std::int64_t{units} * slice / slices);
    const auto end = static_cast<int>(std::int64_t{units} * (slice + 1) / slices);
    head.data += start * head.channel_stride;
    units = end - start;
  }
};

/// Slices of the channels of rows: of 64 bytes or more, which memory moves as fast as whole rows,
/// and not many more than keep every multiprocessor busy.
inline int walk_slices(const Resources& res, std::int64_t heads, std::int64_t row_bytes) {
  const std::int64_t wanted = tiles_of(2 * std::int64_t{res.limits().multiprocessors}, heads);
  const std::int64_t most = std::max<std::int64_t>(1, row_bytes / 64);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
}

/// Moves rows [begin, end) of `units` units each, by all threads of a block, where row j comes from
/// a row that is not in front of j and ascends with j: `store(j, unit, load(j, unit))`. Goes
/// forward in steps. A step's rows are all read before any of them is written; what a step writes
/// lies in front of what later steps read, which may therefore be on its way already. Contains
/// barriers.
template <class Unit, class Load, class Store>
__device__ void walk_forward(std::int64_t begin, std::int64_t end, int units, const Load& load,
                             const Store& store) {
  constexpr int room = walk_units * walk_threads;
  // Rows of more units than a step holds are moved in several parts, each a walk of its own.
  for (int part = 0; part < units; part += room) {
    const int part_units = units - part < room ? units - part : room;
    const int step_rows = room / part_units;
    const auto for_each_item = [&](std::int64_t first, const auto& use) {
      const std::int64_t left = end - first;
      const int items = (left < step_rows ? static_cast<int>(left) : step_rows) * part_units;
      KVEVICT_UNROLL
      for (int k = 0; k < walk_units; ++k) {
        const int i = static_cast<int>(threadIdx.x) + k * walk_threads;
        if (i < items) use(k, first + i / part_units, part + i % part_units);
      }
    };
    Unit next[walk_units];
    const auto read = [&](int k, std::int64_t j, int unit) { next[k] = load(j, unit); };
    if (begin < end) for_each_item(begin, read);
    for (std::int64_t first = begin; first < end; first += step_rows) {
      Unit held[walk_units];
      KVEVICT_UNROLL
      for (int k = 0; k < walk_units; ++k) held[k] = next[k];
      if (first + step_rows < end) for_each_item(first + step_rows, read);
      __syncthreads();
      for_each_item(first, [&](int k, std::int64_t j, int unit) { store(j, unit, held[k]); });
    }
  }
}

}  // namespace kvevict::cuda::detail
