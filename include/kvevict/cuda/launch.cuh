// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "kvevict/core/row_layout.hpp"
#include "kvevict/cuda/resources.cuh"

namespace kvevict::cuda {

/// Enqueues `kernel` on the stream of the resources: `blocks` blocks of `threads` threads with
/// `shared` bytes of dynamic shared memory. Nothing is done for no blocks. Throws unsupported when
/// the device has less shared memory for a block, and a backend error that names the kernel when
/// the launch is refused.
template <class... P, class... A>
void launch(Resources& res, const char* name, void (*kernel)(P...), std::int64_t blocks,
            int threads, std::size_t shared, A&&... arguments) {
  if (blocks == 0) return;
  require(blocks <= INT32_MAX, name, blocks, "at most 2^31 - 1 blocks", ErrorKind::unsupported);
  if (shared > default_shared_bytes) {
    require(shared <= static_cast<std::size_t>(res.limits().shared_bytes), name, shared,
            "bytes of shared memory at most", res.limits().shared_bytes, ErrorKind::unsupported);
    require_success(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shared)),
                    "cudaFuncSetAttribute");
  }
  require_success(detail::launch_kernel(name, kernel, dim3(static_cast<unsigned>(blocks)),
                                        dim3(static_cast<unsigned>(threads)), shared, res.stream(),
                                        std::forward<A>(arguments)...),
                  name);
}

/// ceil(count / size)
KVEVICT_HOST_DEVICE constexpr std::int64_t tiles_of(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

/// What block `block` of a launch over heads x tiles works on: rows [first, first + count) of a
/// head; count is 0 behind the end of a shorter head.
struct HeadTile {
  std::int64_t head = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

KVEVICT_HOST_DEVICE inline HeadTile head_tile(std::int64_t block, std::int64_t tiles,
                                              std::int64_t tile_rows,
                                              const RowLayout<MemorySpace::device>& layout) {
  HeadTile tile;
  tile.head = block / tiles;
  tile.first = block % tiles * tile_rows;
  const std::int64_t left = layout.rows(tile.head) - tile.first;
  tile.count = left < 0 ? 0 : (left < tile_rows ? left : tile_rows);
  return tile;
}

}  // namespace kvevict::cuda
