// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kvevict/core/protect.hpp"
#include "kvevict/core/row_layout.hpp"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/ops/select_top.hpp"

namespace kvevict::cuda {

/// Rows [begin, end) of a head.
struct ProtectedRange {
  std::int32_t begin;
  std::int32_t end;
};

/// The protected rows of one head as kernels read them: disjoint ascending ranges.
struct ProtectedRows {
  const ProtectedRange* ranges = nullptr;
  int count = 0;

  KVEVICT_HOST_DEVICE bool contains(std::int64_t row) const {
    for (int r = 0; r < count; ++r) {
      if (row >= ranges[r].begin && row < ranges[r].end) return true;
    }
    return false;
  }
};

/// The protected rows of all heads, in workspace memory.
struct ProtectedHeads {
  ProtectedRange* ranges = nullptr;  ///< [heads][capacity]
  std::int32_t* count = nullptr;     ///< [heads] ranges of each head
  std::int64_t* held = nullptr;      ///< [heads] rows of each head
  std::int64_t capacity = 0;         ///< 0 when nothing is protected

  KVEVICT_HOST_DEVICE ProtectedRows head(std::int64_t head) const {
    if (capacity == 0) return {};
    return {ranges + head * capacity, count[head]};
  }
  KVEVICT_HOST_DEVICE std::int64_t held_rows(std::int64_t head) const {
    return capacity == 0 ? 0 : held[head];
  }
};

namespace detail {

/// One thread for each head: merges sinks, recent rows and spans into disjoint ranges, as
/// for_each_protected_range does on the host.
static __global__ void __launch_bounds__(128)
    find_protected_rows(Positions<MemorySpace::device> positions,
                        RowLayout<MemorySpace::device> layout, std::int64_t sinks,
                        std::int64_t recent, const PositionSpan* spans, std::int64_t span_count,
                        ProtectedHeads out) {
  const std::int64_t h = static_cast<std::int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (h >= layout.heads()) return;
  const auto row = positions.row(h, layout);
  const std::int64_t rows = layout.rows(h);
  const std::int64_t recent_begin = recent < rows ? rows - recent : 0;
  const std::int64_t sinks_end = row.count_below(sinks, rows);
  ProtectedRange* ranges = out.ranges + h * out.capacity;
  std::int32_t count = 0;
  std::int64_t held = 0;
  std::int64_t done = 0;  // rows before this one have been dealt with
  while (done < rows) {
    // What is left of the range that starts first, the longest of several.
    std::int64_t begin = rows;
    std::int64_t end = rows;
    for (std::int64_t s = -2; s < span_count; ++s) {
      std::int64_t first = s == -2 ? 0 : recent_begin;
      std::int64_t last = s == -2 ? sinks_end : rows;
      if (s >= 0) {
        first = row.count_below(spans[s].begin, rows);
        last = row.count_below(spans[s].end, rows);
      }
      first = first > done ? first : done;
      if (first < last && (first < begin || (first == begin && last > end))) {
        begin = first;
        end = last;
      }
    }
    if (begin >= rows) break;
    ranges[count].begin = static_cast<std::int32_t>(begin);
    ranges[count].end = static_cast<std::int32_t>(end);
    ++count;
    held += end - begin;
    done = end;
  }
  out.count[h] = count;
  out.held[h] = held;
}

}  // namespace detail

/// Carves memory for the protected rows of all heads and enqueues the kernel that finds them.
/// Nothing is launched when nothing is protected.
inline ProtectedHeads protected_heads(Resources& res, WorkspaceScope& scope,
                                      const Positions<MemorySpace::device>& positions,
                                      const RowLayout<MemorySpace::device>& layout,
                                      const Protect& protect) {
  ProtectedHeads heads;
  const auto spans = static_cast<std::int64_t>(protect.spans.size());
  if (protect.sinks == 0 && protect.recent == 0 && spans == 0) return heads;
  // A range that comes out of the merge ends where one of those that go in ends.
  heads.capacity = spans + 2;
  heads.ranges = scope.carve<ProtectedRange>("protected.ranges", layout.heads() * heads.capacity);
  heads.count = scope.carve<std::int32_t>("protected.count", layout.heads());
  heads.held = scope.carve<std::int64_t>("protected.held", layout.heads());
  PositionSpan* device_spans = scope.carve<PositionSpan>("protected.spans", spans);
  if (res.workspace().counting()) return heads;
  upload(res.stream(), protect.spans.data(), spans, device_spans);
  launch(res, "find_protected_rows", detail::find_protected_rows, tiles_of(layout.heads(), 128),
         128, 0, positions, layout, protect.sinks, protect.recent, device_spans, spans, heads);
  return heads;
}

inline void protected_counts_impl(Resources& res, const Positions<MemorySpace::device>& positions,
                                  const Protect& protect,
                                  const RowLayout<MemorySpace::device>& layout,
                                  std::int64_t* held) {
  const bool by_position = protect.sinks > 0 || !protect.spans.empty();
  WorkspaceScope scope(res.workspace());
  if (!by_position || !positions.stored()) {
    if (res.workspace().counting()) return;
    // Consecutive positions, or none that matter: the host knows all that is needed.
    const RowLayout<> rows = layout.host();
    const auto row = Positions<>::consecutive(positions.stored() ? 0 : positions.first());
    for (std::int64_t h = 0; h < rows.heads(); ++h) {
      held[h] = count_protected(protect, row.row(h, rows), rows.rows(h));
    }
    return;
  }
  const ProtectedHeads heads = protected_heads(res, scope, positions, layout, protect);
  if (res.workspace().counting()) return;
  require_success(
      cudaMemcpyAsync(held, heads.held, static_cast<std::size_t>(layout.heads()) * sizeof *held,
                      cudaMemcpyDeviceToHost, res.stream()),
      "cudaMemcpyAsync");
  res.wait();
}

}  // namespace kvevict::cuda
