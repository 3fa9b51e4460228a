// SPDX-License-Identifier: Apache-2.0
#include "warp.hpp"

#include <algorithm>
#include <bit>

#include "block.hpp"
#include "failure.hpp"
#include "lanes.hpp"

namespace kvevict_ptx {
namespace {

using State = LaneGroup::State;

/// Instructions that a group may run before another one of its warp has a turn: a group that waits
/// for another one must not keep it from running.
constexpr std::uint64_t turn = 1 << 16;

}  // namespace

Warp::Warp(Block& block, int index, std::byte* registers)
    : block_(block),
      index_(index),
      registers_(registers),
      // Only read: no instruction has a constant as its destination.
      constants_(reinterpret_cast<std::byte*>(
          const_cast<std::uint64_t*>(block.grid().program.constants.data()))),
      code_(block.grid().program.code.data()) {
  const int lanes = std::min(block.grid().thread_count() - index * warp_lanes, warp_lanes);
  existing_ = lanes == warp_lanes ? all_lanes : (LaneMask{1} << lanes) - 1;
}

void Warp::reset() {
  live_ = existing_;
  groups_[0] = {0, existing_, State::ready};
  group_count_ = 1;
  copies_.pending.clear();
  copies_.commits.fill(0);
}

bool Warp::can_run() const {
  return std::any_of(begin(), end(), [](const LaneGroup& g) { return g.state == State::ready; });
}

std::uint32_t Warp::choose() const {
  std::array<std::uint32_t, warp_lanes> places{};
  std::size_t count = 0;
  for (const LaneGroup& group : *this) {
    if (group.state == State::ready) places[count++] = group.at;
  }
  if (turns_ % 2 == 1) return places[turns_ / 2 % count];
  return *std::min_element(places.begin(), places.begin() + count);
}

LaneMask Warp::take(std::uint32_t at, State state) {
  LaneMask lanes = 0;
  for (std::size_t k = group_count_; k-- > 0;) {
    if (groups_[k].at != at || groups_[k].state != state) continue;
    lanes |= groups_[k].lanes;
    groups_[k] = groups_[--group_count_];
  }
  return lanes;
}

void Warp::put(std::uint32_t at, LaneMask lanes, State state) {
  if (lanes != 0) groups_[group_count_++] = {at, lanes, state};
}

void Warp::run() {
  const std::uint64_t end_of_slice = steps_ + Block::time_slice;
  while (steps_ < end_of_slice && can_run()) {
    const std::uint32_t at = choose();
    execute(at, take(at, State::ready), steps_ + turn);
  }
}

void Warp::execute(std::uint32_t at, LaneMask lanes, std::uint64_t end_of_turn) {
  std::uint32_t meeting = 0xffffffffu;
  for (const LaneGroup& group : *this) {
    if (group.state == State::ready && group.at > at) meeting = std::min(meeting, group.at);
  }
  auto width = static_cast<std::uint64_t>(std::popcount(lanes));
  while (at < meeting) {
    if (steps_ == end_of_turn) {
      ++turns_;
      break;
    }
    const Instruction& instruction = code_[at];
    ++steps_;
    lane_steps_ += width;
    LaneMask active = lanes;
    if (instruction.guard != no_slot) {
      const LaneMask bits = predicate(instruction.guard);
      active &= instruction.guard_negated ? ~bits : bits;
    }
    if (instruction.control == Control::next) {
      if (active != 0) instruction.run(*this, instruction, active);
      ++at;
    } else {
      if (!control(instruction, at, lanes, active)) return;
      width = static_cast<std::uint64_t>(std::popcount(lanes));
    }
  }
  put(at, lanes, State::ready);
}

/// Moves `at` and `lanes` on, or returns false: the lanes are in groups_ again, or have returned.
bool Warp::control(const Instruction& instruction, std::uint32_t& at, LaneMask& lanes,
                   LaneMask active) {
  if (active == 0) {
    ++at;
    return true;
  }
  switch (instruction.control) {
    case Control::next:
      break;
    case Control::branch:
      if (active == lanes) {
        at = instruction.target;
        return true;
      }
      put(instruction.target, active, State::ready);
      put(at + 1, lanes & ~active, State::ready);
      return false;
    case Control::indexed_branch:
      return branch_indexed(instruction, at, lanes, active);
    case Control::exit:
      for (const AsyncCopies::Copy& copy : copies_.pending) {
        if ((active >> copy.lane & 1) == 0) continue;
        fail(*this, instruction, copy.lane, "a copy by cp.async was never waited for");
      }
      live_ &= ~active;
      lanes &= ~active;
      ++at;
      return lanes != 0;
    case Control::warp_sync:
      return synchronize(instruction, at, lanes, active);
    case Control::barrier:
      put(at, active, State::at_barrier);
      put(at + 1, lanes & ~active, State::ready);
      return false;
  }
  return false;
}

bool Warp::branch_indexed(const Instruction& instruction, std::uint32_t& at, LaneMask lanes,
                          LaneMask active) {
  const auto& targets = block_.grid().program.branch_targets[instruction.target];
  const auto* index = this->lanes<std::uint32_t>(instruction.slots[0]);
  put(at + 1, lanes & ~active, State::ready);
  for (LaneMask rest = active; rest != 0;) {
    const int lane = std::countr_zero(rest);
    if (index[lane] >= targets.size()) {
      fail(*this, instruction, lane,
           "branch index " + std::to_string(index[lane]) + " is beyond the list of targets");
    }
    LaneMask together = 0;
    for_each_lane(rest, [&](int other) {
      together |= static_cast<LaneMask>(index[other] == index[lane]) << other;
    });
    put(targets[index[lane]], together, State::ready);
    rest &= ~together;
  }
  return false;
}

bool Warp::synchronize(const Instruction& instruction, std::uint32_t& at, LaneMask& lanes,
                       LaneMask active) {
  const LaneMask here = active | take(at, State::at_warp_sync);
  LaneMask waiting = 0;
  for (LaneMask rest = here; rest != 0;) {
    const int lane = std::countr_zero(rest);
    const LaneMask together = members(instruction, lane);
    if ((together >> lane & 1) == 0) {
      fail(*this, instruction, lane, "the lane is not in its own mask");
    }
    if (const LaneMask gone = together & ~live_; gone != 0) {
      fail(
          *this, instruction, lane,
          "the mask names lane " + std::to_string(std::countr_zero(gone)) + ", which has returned");
    }
    if ((together & ~here) != 0) {
      waiting |= LaneMask{1} << lane;
      rest &= ~(LaneMask{1} << lane);
      continue;
    }
    for_each_lane(together, [&](int other) {
      if (members(instruction, other) != together) {
        fail(*this, instruction, lane,
             "lane " + std::to_string(other) + " takes part with another mask");
      }
    });
    instruction.run(*this, instruction, together);
    rest &= ~together;
  }
  const LaneMask passed = (lanes | here) & ~waiting;
  if (waiting == 0) {
    lanes = passed;
    ++at;
    return true;
  }
  put(at, waiting, State::at_warp_sync);
  put(at + 1, passed, State::ready);
  return false;
}

void Warp::pass_barrier() {
  for (LaneGroup& group : groups_) {
    if (&group == end()) break;
    if (group.state != State::at_barrier) continue;
    const Instruction& instruction = code_[group.at];
    if (instruction.run != nullptr) instruction.run(*this, instruction, group.lanes);
    group = {group.at + 1, group.lanes, State::ready};
  }
}

}  // namespace kvevict_ptx
