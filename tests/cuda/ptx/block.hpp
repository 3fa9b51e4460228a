// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
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

  Grid& grid() const { return grid_; }
  dim3 index() const { return index_; }
  BlockClock& clock() { return clock_; }
  bool looks_for_races() const { return shared_races_ != nullptr; }
  RaceChecker& shared_races() { return *shared_races_; }
  Range shared() const { return {shared_.get(), shared_bytes_}; }
  Range local(int thread) const {
    const std::size_t bytes = grid_.program.local_bytes;
    return {local_.get() + static_cast<std::size_t>(thread) * bytes, bytes};
  }
  /// What bar.red found, of the barrier that is being passed.
  int barrier_count() const { return barrier_count_; }
  int barrier_threads() const { return barrier_threads_; }
  /// Instructions a warp may run before the others have their turn.
  static constexpr std::uint64_t time_slice = 1 << 20;

 private:
  struct FreeMemory {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte[], FreeMemory>;
  static Memory allocate(std::size_t bytes);

  void fill_specials(bool of_the_launch);
  void run_warps();
  bool pass_barrier();
  void check_same_barrier(const Warp& first, const LaneGroup& group);
  [[noreturn]] void report_deadlock();
  std::string waiting_places() const;

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
