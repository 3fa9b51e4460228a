// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "program.hpp"

namespace kvevict_ptx {

class Block;

/// Lanes of a warp that are at the same instruction. The group with the lowest address runs until
/// it meets another one, so that lanes that went different ways run together again where the ways
/// join. Each group makes progress of its own, as on devices since compute capability 7.0.
struct LaneGroup {
  enum class State : unsigned char { ready, at_warp_sync, at_barrier };
  std::uint32_t at = 0;
  LaneMask lanes = 0;
  State state = State::ready;
};

/// The copies of cp.async that the lanes of a warp have begun and not waited for.
struct AsyncCopies {
  struct Copy {
    std::uint64_t to;  ///< offset in shared memory
    const std::byte* from;
    std::uint32_t bytes;
    std::uint32_t read;  ///< bytes of the source
    int lane;
    std::uint64_t group;  ///< groups that the lane had committed before
  };
  std::vector<Copy> pending;
  std::array<std::uint64_t, warp_lanes> commits{};
};

class Warp {
 public:
  Warp(Block& block, int index, std::byte* registers);

  /// Puts all lanes at the first instruction.
  void reset();

  /// Runs until every lane has returned or waits for others, or until its time is over.
  void run();

  /// Lets the groups that wait at a barrier go on.
  void pass_barrier();

  bool can_run() const;
  bool finished() const { return live_ == 0; }
  LaneMask existing() const { return existing_; }
  LaneMask live() const { return live_; }  ///< have not returned
  const LaneGroup* begin() const { return groups_.data(); }
  const LaneGroup* end() const { return groups_.data() + group_count_; }
  /// The existing lanes that the operation of warp synchronisation at `instruction` names.
  LaneMask members(const Instruction& instruction, int lane) const {
    return lanes<LaneMask>(instruction.slots[members_operand])[lane] & existing_;
  }

  Block& block() const { return block_; }
  int index() const { return index_; }
  int thread(int lane) const { return index_ * warp_lanes + lane; }
  /// Instructions executed, each counted once for all lanes.
  std::uint64_t steps() const { return steps_; }
  /// The same, counted once for each lane.
  std::uint64_t lane_steps() const { return lane_steps_; }
  AsyncCopies& copies() { return copies_; }

  /// The 32 values of an operand of type T.
  template <class T>
  T* lanes(Slot slot) const {
    return reinterpret_cast<T*>(slot >= constant_slot ? constants_ + (slot - constant_slot)
                                                      : registers_ + slot);
  }
  /// One bit per lane.
  LaneMask& predicate(Slot slot) const { return *lanes<LaneMask>(slot); }
  /// The bits of a predicate operand that may be negated.
  LaneMask predicate(const Instruction& instruction, int operand) const {
    const LaneMask bits = predicate(instruction.slots[static_cast<std::size_t>(operand)]);
    return (instruction.negated >> operand & 1) != 0 ? ~bits : bits;
  }
  void set_predicate(Slot slot, LaneMask bits, LaneMask active) const {
    LaneMask& old = predicate(slot);
    old = (old & ~active) | (bits & active);
  }

 private:
  std::uint32_t choose() const;
  LaneMask take(std::uint32_t at, LaneGroup::State state);
  void put(std::uint32_t at, LaneMask lanes, LaneGroup::State state);
  void execute(std::uint32_t at, LaneMask lanes, std::uint64_t end_of_turn);
  bool control(const Instruction& instruction, std::uint32_t& at, LaneMask& lanes, LaneMask active);
  bool branch_indexed(const Instruction& instruction, std::uint32_t& at, LaneMask lanes,
                      LaneMask active);
  bool synchronize(const Instruction& instruction, std::uint32_t& at, LaneMask& lanes,
                   LaneMask active);

  Block& block_;
  int index_;
  std::byte* registers_;
  std::byte* constants_;
  const Instruction* code_;
  LaneMask existing_ = 0;
  LaneMask live_ = 0;
  std::array<LaneGroup, warp_lanes> groups_;
  std::size_t group_count_ = 0;
  std::uint64_t turns_ = 0;  ///< that ended before their group stopped by itself
  std::uint64_t steps_ = 0;
  std::uint64_t lane_steps_ = 0;
  AsyncCopies copies_;
};

}  // namespace kvevict_ptx
