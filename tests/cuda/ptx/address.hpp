// SPDX-License-Identifier: Apache-2.0
#pragma once

// From the address of a PTX instruction to memory, with every check there is. Generic addresses are
// addresses of this process; those of the shared, local and parameter spaces count from 0.
#include <cstddef>
#include <cstdint>

#include "block.hpp"
#include "program.hpp"
#include "races.hpp"
#include "warp.hpp"

namespace kvevict_ptx {

/// The memory of one access of `bytes` bytes by a lane. Throws DeviceError if it is misaligned, out
/// of bounds, in memory that is not the device's, unwritten, or races with another thread's.
template <Space space>
std::byte* resolve(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                   unsigned bytes, Access access);

/// The address operand `operand` of a lane, plus the instruction's offset. Addresses in registers
/// of 32 bits wrap around there.
inline std::uint64_t address_of(const Warp& warp, const Instruction& instruction, int lane,
                                int operand) {
  const Slot slot = instruction.slots[static_cast<std::size_t>(operand)];
  const auto offset = static_cast<std::uint64_t>(instruction.offset);
  if (instruction.address_bytes == 4) {
    return static_cast<std::uint32_t>(warp.lanes<std::uint32_t>(slot)[lane] + offset);
  }
  return warp.lanes<std::uint64_t>(slot)[lane] + offset;
}

namespace detail {

[[noreturn]] void fail_alignment(const Warp& warp, const Instruction& instruction, int lane,
                                 std::uint64_t address, unsigned bytes);
[[noreturn]] void fail_window(const Warp& warp, const Instruction& instruction, int lane,
                              const char* space, std::uint64_t address, unsigned bytes,
                              std::size_t size);
/// Fails unless all bytes are in one allocation.
Allocation find_allocation(Warp& warp, const Instruction& instruction, int lane,
                           std::uint64_t address, unsigned bytes);
/// A generic address in the block's shared or the thread's local memory, or in no such window:
/// null.
std::byte* resolve_window(Warp& warp, const Instruction& instruction, int lane,
                          std::uint64_t address, unsigned bytes, Access access);
[[noreturn]] void fail_race(const Warp& warp, const Instruction& instruction, int lane,
                            const Finding& finding, std::size_t offset, unsigned bytes,
                            Access access);

inline void check_races(Warp& warp, const Instruction& instruction, int lane, RaceChecker& races,
                        std::size_t offset, unsigned bytes, Access access) {
  const Finding finding =
      races.check(warp.block().clock(), offset, bytes, access, warp.thread(lane));
  if (finding.conflict != Conflict::none) {
    fail_race(warp, instruction, lane, finding, offset, bytes, access);
  }
}
inline std::byte* resolve_shared(Warp& warp, const Instruction& instruction, int lane,
                                 std::uint64_t offset, unsigned bytes, Access access) {
  Block& block = warp.block();
  const Range shared = block.shared();
  if (offset >= shared.bytes || bytes > shared.bytes - offset) {
    fail_window(warp, instruction, lane, "shared", offset, bytes, shared.bytes);
  }
  if (block.looks_for_races()) {
    check_races(warp, instruction, lane, block.shared_races(), offset, bytes, access);
  }
  return const_cast<std::byte*>(shared.begin) + offset;
}

inline std::byte* resolve_global(Warp& warp, const Instruction& instruction, int lane,
                                 std::uint64_t address, unsigned bytes, Access access) {
  Allocation& last = warp.block().grid().last(instruction);
  if (!last.range.holds(address, bytes)) {
    last = find_allocation(warp, instruction, lane, address, bytes);
  }
  if (last.races != nullptr) {
    check_races(warp, instruction, lane, *last.races,
                address - reinterpret_cast<std::uint64_t>(last.range.begin), bytes, access);
  }
  return reinterpret_cast<std::byte*>(address);
}

}  // namespace detail

template <Space space>
std::byte* resolve(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                   unsigned bytes, Access access) {
  if ((address & (bytes - 1)) != 0) {
    detail::fail_alignment(warp, instruction, lane, address, bytes);
  }
  Block& block = warp.block();
  if constexpr (space == Space::shared) {
    return detail::resolve_shared(warp, instruction, lane, address, bytes, access);
  } else if constexpr (space == Space::local) {
    const Range local = block.local(warp.thread(lane));
    if (address >= local.bytes || bytes > local.bytes - address) {
      detail::fail_window(warp, instruction, lane, "local", address, bytes, local.bytes);
    }
    return const_cast<std::byte*>(local.begin) + address;
  } else if constexpr (space == Space::param) {
    const auto parameters = block.grid().parameters;
    if (address >= parameters.size() || bytes > parameters.size() - address) {
      detail::fail_window(warp, instruction, lane, "parameter", address, bytes, parameters.size());
    }
    return const_cast<std::byte*>(parameters.data()) + address;
  } else {
    if constexpr (space == Space::generic) {
      std::byte* inside = detail::resolve_window(warp, instruction, lane, address, bytes, access);
      if (inside != nullptr) return inside;
    }
    return detail::resolve_global(warp, instruction, lane, address, bytes, access);
  }
}

}  // namespace kvevict_ptx
