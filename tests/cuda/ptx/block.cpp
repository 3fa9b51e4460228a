// SPDX-License-Identifier: Apache-2.0
#include "block.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <numeric>

#include "../emu/settings.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "ptx_settings.hpp"

namespace kvevict_ptx {
namespace {

using State = LaneGroup::State;
constexpr std::align_val_t alignment{1024};

}  // namespace

void Block::FreeMemory::operator()(std::byte* memory) const {
  ::operator delete[](memory, alignment);
}

Block::Memory Block::allocate(std::size_t bytes) {
  Memory memory(static_cast<std::byte*>(::operator new[](bytes + guard_bytes, alignment)));
  std::memset(memory.get(), 0xff, bytes);
  return memory;
}

Block::Block(Grid& grid) : grid_(grid), random_(kvevict_emulation::settings().seed) {
  const Program& program = grid.program;
  const auto threads = static_cast<std::size_t>(grid.thread_count());
  const std::size_t warps = (threads + warp_lanes - 1) / warp_lanes;
  shared_bytes_ = grid.dynamic_shared > 0 ? program.dynamic_shared_begin + grid.dynamic_shared
                                          : program.static_shared;
  registers_ = allocate(warps * program.register_bytes);
  shared_ = allocate(shared_bytes_);
  local_ = allocate(warps * warp_lanes * program.local_bytes);
  if (ptx_settings().shared_races) {
    shared_races_ = std::make_unique<RaceChecker>(shared_bytes_, true);
  }
  for (std::size_t w = 0; w < warps; ++w) {
    warps_.emplace_back(*this, static_cast<int>(w), registers_.get() + w * program.register_bytes);
    fill_specials(warps_.back(), false);
  }
  order_.resize(warps);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (kvevict_emulation::settings().thread_order == kvevict_emulation::ThreadOrder::reverse) {
    std::reverse(order_.begin(), order_.end());
  }
}

void Block::run(dim3 index) {
  index_ = index;
  clock_.begin_block(static_cast<int>(warps_.size()));
  std::memset(shared_.get(), 0xff, shared_bytes_);
  for (Warp& warp : warps_) {
    warp.reset();
    fill_specials(warp, true);
  }
  const std::uint64_t begin = steps();
  do {
    run_warps();
    if (steps() - begin > ptx_settings().most_instructions) {
      fail(*this, "the block does not come to an end");
    }
  } while (pass_barrier());
}

std::uint64_t Block::steps() const {
  std::uint64_t sum = 0;
  for (const Warp& warp : warps_) sum += warp.steps();
  return sum;
}

std::uint64_t Block::lane_steps() const {
  std::uint64_t sum = 0;
  for (const Warp& warp : warps_) sum += warp.lane_steps();
  return sum;
}

void Block::run_warps() {
  if (kvevict_emulation::settings().thread_order == kvevict_emulation::ThreadOrder::shuffled) {
    std::shuffle(order_.begin(), order_.end(), random_);
  }
  for (const std::size_t w : order_) warps_[w].run();
}

bool Block::pass_barrier() {
  const Warp* first = nullptr;
  const LaneGroup* place = nullptr;
  int waiting = 0;
  int live = 0;
  for (const Warp& warp : warps_) {
    if (warp.can_run()) return true;  // its time was over, not its work
    live += std::popcount(warp.live());
    for (const LaneGroup& group : warp) {
      if (group.state != State::at_barrier) continue;
      waiting += std::popcount(group.lanes);
      if (first == nullptr) first = &warp, place = &group;
    }
  }
  if (live == 0) return false;
  if (first == nullptr) report_waiting_lanes();
  const Instruction& barrier = grid_.program.code[place->at];
  const int lane = std::countr_zero(place->lanes);
  check_same_barrier(*first, *place);
  if (waiting < live) report_waiting_lanes();
  if (live < grid_.thread_count() && !ptx_settings().early_return) {
    fail(*first, barrier, lane,
         "threads wait at a barrier which others can no longer reach: " +
             std::to_string(grid_.thread_count() - live) + " have returned");
  }
  combine_predicates();
  clock_.pass_barrier();
  for (Warp& warp : warps_) warp.pass_barrier();
  return true;
}

void Block::check_same_barrier(const Warp& first, const LaneGroup& place) const {
  for (const Warp& warp : warps_) {
    for (const LaneGroup& group : warp) {
      if (group.state != State::at_barrier || group.at == place.at) continue;
      fail(first, grid_.program.code[place.at], std::countr_zero(place.lanes),
           "divergent barrier: thread " +
               thread_name(*this, warp.thread(std::countr_zero(group.lanes))) + " waits at " +
               place_name(grid_.program, group.at));
    }
  }
}

/// bar.red counts the threads whose predicate, slots[1], is true.
void Block::combine_predicates() {
  barrier_count_ = barrier_threads_ = 0;
  for (const Warp& warp : warps_) {
    for (const LaneGroup& group : warp) {
      if (group.state != State::at_barrier) continue;
      barrier_threads_ += std::popcount(group.lanes);
      const Instruction& instruction = grid_.program.code[group.at];
      if (instruction.run == nullptr) continue;
      barrier_count_ += std::popcount(warp.predicate(instruction, 1) & group.lanes);
    }
  }
}

/// Nobody can go on: says what the first lane waits for that waits for other lanes.
void Block::report_waiting_lanes() const {
  for (const Warp& warp : warps_) {
    for (const LaneGroup& group : warp) {
      if (group.state != State::at_warp_sync) continue;
      const Instruction& instruction = grid_.program.code[group.at];
      const int lane = std::countr_zero(group.lanes);
      const LaneMask missing = warp.members(instruction, lane) & ~group.lanes;
      const int other = std::countr_zero(missing);
      std::string where = "has returned";
      for (const LaneGroup& elsewhere : warp) {
        if ((elsewhere.lanes >> other & 1) == 0) continue;
        where = "waits at " + place_name(grid_.program, elsewhere.at);
      }
      fail(warp, instruction, lane,
           "the lanes of a warp do not meet: lane " + std::to_string(other) +
               ", which the mask names, " + where);
    }
  }
  fail(*this, "deadlock");
}

void Block::fill_specials(const Warp& warp, bool of_this_block) const {
  for (const SpecialRegister& special : grid_.program.specials) {
    const bool is_index = special.what == Special::ctaid_x || special.what == Special::ctaid_y ||
                          special.what == Special::ctaid_z;
    if (is_index != of_this_block) continue;
    auto* values = warp.lanes<std::uint32_t>(special.slot);
    for (int lane = 0; lane < warp_lanes; ++lane) {
      const auto thread = static_cast<std::uint32_t>(warp.thread(lane));
      values[lane] = special_value(special.what, thread, static_cast<std::uint32_t>(lane));
    }
  }
}

}  // namespace kvevict_ptx
