// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "program.hpp"
#include "races.hpp"

namespace kvevict_ptx {

/// Memory that a kernel may touch.
struct Range {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;

  bool holds(std::uint64_t address, std::size_t count) const {
    const std::uint64_t inside = address - reinterpret_cast<std::uint64_t>(begin);
    return inside < bytes && count <= bytes - inside;
  }
};

/// An allocation that a launch uses, and what it did there (null: not followed).
struct Allocation {
  Range range;
  RaceChecker* races = nullptr;
};

/// What all blocks of a launch share.
class Grid {
 public:
  /// The parameters' bytes are laid out as the program says, and must outlive the grid.
  Grid(const Program& kernel, dim3 block_count, dim3 thread_count, std::size_t dynamic_bytes,
       std::span<const std::byte> parameter_bytes);

  /// Runs all blocks, one after the other. Throws DeviceError where a kernel does what it must not.
  void run();

  const Program& program;
  const dim3 blocks;
  const dim3 threads;
  const std::size_t dynamic_shared;
  const std::span<const std::byte> parameters;

  int thread_count() const { return static_cast<int>(threads.x * threads.y * threads.z); }
  /// Executed by run, counted for each thread.
  std::uint64_t lane_instructions() const { return lane_instructions_; }

  /// The allocation that an instruction touched last: it is likely to touch it again.
  Allocation& last(const Instruction& instruction) {
    return last_[static_cast<std::size_t>(&instruction - program.code.data())];
  }
  /// The allocation at `address`, with an empty range if there is none.
  Allocation allocation(std::uint64_t address);
  /// The allocation that ends not far before `address`, for messages.
  static Range allocation_before(std::uint64_t address);

 private:
  std::vector<Allocation> last_;
  std::unordered_map<const std::byte*, std::unique_ptr<RaceChecker>> races_;
  std::uint64_t lane_instructions_ = 0;
};

}  // namespace kvevict_ptx
