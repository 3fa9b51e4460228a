// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kvevict/cuda/channel_slots.cuh"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/upload.cuh"
#include "kvevict/ops/rerotate_keys.hpp"

namespace kvevict::cuda {

namespace detail {

inline constexpr int rerotate_threads = 128;

/// One block for each tile of a head; a thread for each row and pair. Bound by the sines in double.
template <class T>
__global__ void __launch_bounds__(rerotate_threads)
    rerotate_tiles(RowsView<T, MemorySpace::device> keys, Positions<MemorySpace::device> from,
                   Positions<MemorySpace::device> to, ChannelSlots slots, const double* frequencies,
                   std::int64_t tiles, std::int64_t tile_rows) {
  const HeadTile tile = head_tile(blockIdx.x, tiles, tile_rows, keys.layout());
  if (tile.count == 0) return;
  const HeadView<T, MemorySpace::device> head = keys.head(tile.head);
  const PositionRow<> old_positions = from.row(tile.head, keys.layout());
  const PositionRow<> new_positions = to.row(tile.head, keys.layout());
  const auto pairs = static_cast<int>(slots.pairs);
  const int items = static_cast<int>(tile.count) * pairs;
  for (int n = static_cast<int>(threadIdx.x); n < items; n += rerotate_threads) {
    const std::int64_t i = tile.first + n / pairs;
    const int pair = n % pairs;
    const std::int64_t distance = std::int64_t{new_positions[i]} - old_positions[i];
    if (distance == 0) continue;
    const double angle = static_cast<double>(distance) * frequencies[pair];
    const double cosine = cos(angle);
    const double sine = sin(angle);
    T* key = head.row(i);
    T& a = key[slots.first(pair) * head.channel_stride];
    T& b = key[slots.second(pair) * head.channel_stride];
    const auto x = static_cast<double>(static_cast<float>(a));
    const auto y = static_cast<double>(static_cast<float>(b));
    a = saturated<T>(x * cosine - y * sine);
    b = saturated<T>(x * sine + y * cosine);
  }
}

}  // namespace detail

/// Does not wait.
template <class T>
void rerotate_keys_impl(Resources& res, const RowsView<T, MemorySpace::device>& keys,
                        const Positions<MemorySpace::device>& from,
                        const Positions<MemorySpace::device>& to, const Rope& rope) {
  const ChannelSlots slots(rope, keys.dim());
  WorkspaceScope scope(res.workspace());
  auto* frequencies = scope.carve<double>("rerotate_keys.frequencies", slots.pairs);
  WorkspaceScope host(res.host_workspace());
  auto* host_frequencies = host.carve<double>("rerotate_keys.frequencies", slots.pairs);
  if (res.workspace().counting() || slots.pairs == 0) return;
  for (std::int64_t pair = 0; pair < slots.pairs; ++pair) {
    host_frequencies[pair] = rope.frequency(pair, keys.dim());
  }
  upload(res.stream(), host_frequencies, slots.pairs, frequencies);
  // About eight pairs for a thread.
  const std::int64_t tile_rows =
      std::max<std::int64_t>(1, 8 * detail::rerotate_threads / slots.pairs);
  const std::int64_t tiles = tiles_of(keys.layout().longest(), tile_rows);
  launch(res, "rerotate_keys", detail::rerotate_tiles<T>, keys.heads() * tiles,
         detail::rerotate_threads, 0, keys, from, to, slots, frequencies, tiles, tile_rows);
}

}  // namespace kvevict::cuda
