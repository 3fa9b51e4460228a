// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cuda/launch.cuh"
#include "kvevict/math/combined_mass.hpp"
#include "kvevict/ops/running_mass.hpp"

namespace kvevict::cuda {

namespace detail {

using DeviceMass = RunningMass<MemorySpace::device>;

inline constexpr int mass_threads = 128;

static __global__ void __launch_bounds__(mass_threads)
    add_to_mass(DeviceMass before, MassStep<MemorySpace::device> step, DeviceMass after,
                std::int64_t tiles) {
  const HeadTile tile = head_tile(blockIdx.x, tiles, mass_threads, after.layout);
  if (static_cast<std::int64_t>(threadIdx.x) >= tile.count) return;
  const std::int64_t h = tile.head;
  const std::int64_t i = tile.first + threadIdx.x;
  const std::int64_t position = step.row_positions.row(h, step.received.layout)[i];
  // Queries before the row could not see it.
  std::int64_t earlier = 0;
  for (std::int64_t end = step.queries; earlier < end;) {
    const std::int64_t middle = earlier + (end - earlier) / 2;
    if (step.query_positions.at(h, middle) < position) {
      earlier = middle + 1;
    } else {
      end = middle;
    }
  }
  double mass = 0.0;
  std::int64_t seen = 0;
  if (h < before.layout.heads() && i < before.layout.rows(h)) {
    mass = before.mass[before.layout.offset(h) + i] * step.kept_share;
    seen = before.seen[before.layout.offset(h) + i];
  }
  mass = combined_mass(mass, static_cast<double>(step.received.head(h)[i]), step.largest);
  seen += step.queries - earlier;
  const std::int64_t at = after.layout.offset(h) + i;
  after.mass[at] = mass;
  after.seen[at] = seen;
  if (step.mean) mass = seen > 0 ? mass / static_cast<double>(seen) : 0.0;
  after.value[at] = static_cast<float>(mass);
}

static __global__ void __launch_bounds__(mass_threads)
    keep_mass(SelectionView<MemorySpace::device> kept, DeviceMass from, DeviceMass to,
              std::int64_t tiles) {
  const HeadTile tile = head_tile(blockIdx.x, tiles, mass_threads, to.layout);
  if (static_cast<std::int64_t>(threadIdx.x) >= tile.count) return;
  const std::int64_t j = tile.first + threadIdx.x;
  const std::int64_t source = from.layout.offset(tile.head) + kept.head(tile.head)[j];
  const std::int64_t target = to.layout.offset(tile.head) + j;
  to.mass[target] = from.mass[source];
  to.seen[target] = from.seen[source];
  to.value[target] = from.value[source];
}

}  // namespace detail

/// Does not wait.
inline void accumulate_mass_impl(Resources& res, const RunningMass<MemorySpace::device>& before,
                                 const MassStep<MemorySpace::device>& step,
                                 const RunningMass<MemorySpace::device>& after) {
  if (res.workspace().counting()) return;
  const std::int64_t tiles = tiles_of(after.layout.longest(), detail::mass_threads);
  launch(res, "add_to_mass", detail::add_to_mass, after.layout.heads() * tiles,
         detail::mass_threads, 0, before, step, after, tiles);
}

/// Does not wait.
inline void gather_mass_impl(Resources& res, const SelectionView<MemorySpace::device>& kept,
                             const RunningMass<MemorySpace::device>& from,
                             const RunningMass<MemorySpace::device>& to) {
  if (res.workspace().counting()) return;
  const std::int64_t tiles = tiles_of(to.layout.longest(), detail::mass_threads);
  launch(res, "keep_mass", detail::keep_mass, to.layout.heads() * tiles, detail::mass_threads, 0,
         kept, from, to, tiles);
}

}  // namespace kvevict::cuda
