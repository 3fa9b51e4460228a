// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "grid.hpp"
#include "races.hpp"
#include "warp.hpp"

namespace kvevict_ptx {

/// The threads of one block, their shared and local memory. One object runs all blocks of a launch.
class Block {
 public:
  explicit Block(Grid& grid);

  void run(dim3 index);

  /// Instructions of all blocks so far, counted for each thread.
  std::uint64_t lane_steps() const;

  Grid& grid() const { return grid_; }
  dim3 index() const { return index_; }
  BlockClock& clock() { return clock_; }
  bool looks_for_races() const { return shared_races_ != nullptr; }
  RaceChecker& shared_races() { return *shared_races_; }
  Range shared() const { return {shared_.get(), shared_bytes_}; }
  /// Behind shared memory: addresses that only an overrun of it can reach.
  Range behind_shared() const { return {shared_.get() + shared_bytes_, guard_bytes}; }
  Range local(int thread) const {
    const std::size_t bytes = grid_.program.local_bytes;
    return {local_.get() + static_cast<std::size_t>(thread) * bytes, bytes};
  }
  /// Threads at the barrier that is being passed, and those of them whose predicate is true.
  int barrier_count() const { return barrier_count_; }
  int barrier_threads() const { return barrier_threads_; }
  /// Instructions a warp may run before the others have their turn.
  static constexpr std::uint64_t time_slice = 1 << 20;

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte[], FreeMemory>;
  static constexpr std::size_t guard_bytes = std::size_t{64} << 10;
  static Memory allocate(std::size_t bytes);

  std::uint64_t steps() const;
  /// Registers like %tid: those that differ from block to block, or the others.
  void fill_specials(const Warp& warp, bool of_this_block) const;
  std::uint32_t special_value(Special what, std::uint32_t thread, std::uint32_t lane) const;
  void run_warps();
  bool pass_barrier();
  void check_same_barrier(const Warp& first, const LaneGroup& place) const;
  void combine_predicates();
  [[noreturn]] void report_waiting_lanes() const;

  Grid& grid_;
  dim3 index_;
  std::size_t shared_bytes_;
  Memory registers_;
  Memory shared_;
  Memory local_;
  std::deque<Warp> warps_;
  std::vector<std::size_t> order_;
  std::mt19937_64 random_;
  BlockClock clock_;
  std::unique_ptr<RaceChecker> shared_races_;
  int barrier_count_ = 0;
  int barrier_threads_ = 0;
};

}  // namespace kvevict_ptx
