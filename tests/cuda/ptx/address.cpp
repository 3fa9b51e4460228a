// SPDX-License-Identifier: Apache-2.0
#include "address.hpp"

#include <cstdio>
#include <string>

#include "failure.hpp"

namespace kvevict_ptx::detail {
namespace {

std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string access_name(unsigned bytes) { return "access of " + std::to_string(bytes) + " bytes"; }

}  // namespace

void fail_alignment(const Warp& warp, const Instruction& instruction, int lane,
                    std::uint64_t address, unsigned bytes) {
  fail(warp, instruction, lane, "misaligned " + access_name(bytes) + " at " + hexadecimal(address));
}

void fail_window(const Warp& warp, const Instruction& instruction, int lane, const char* space,
                 std::uint64_t address, unsigned bytes, std::size_t size) {
  fail(warp, instruction, lane,
       access_name(bytes) + " at offset " + std::to_string(static_cast<std::int64_t>(address)) +
           " is outside of the " + space + " memory of " + std::to_string(size) + " bytes");
}

Allocation find_allocation(Warp& warp, const Instruction& instruction, int lane,
                           std::uint64_t address, unsigned bytes) {
  const Allocation found = warp.block().grid().allocation(address);
  if (found.range.holds(address, bytes)) return found;
  std::string what = access_name(bytes) + " at " + hexadecimal(address);
  if (found.range.begin != nullptr) {
    what += " runs past the end of its allocation";
  } else {
    what += " is not in device memory";
    const Range before = Grid::allocation_before(address);
    if (before.begin != nullptr) {
      const auto end = reinterpret_cast<std::uint64_t>(before.begin) + before.bytes;
      what += ": it is " + std::to_string(address - end) + " bytes behind an allocation of " +
              std::to_string(before.bytes) + " bytes";
    }
  }
  fail(warp, instruction, lane, what);
}

std::byte* resolve_window(Warp& warp, const Instruction& instruction, int lane,
                          std::uint64_t address, unsigned bytes, Access access) {
  Block& block = warp.block();
  const Range shared = block.shared();
  if (shared.holds(address, 1)) {
    return resolve_shared(warp, instruction, lane,
                          address - reinterpret_cast<std::uint64_t>(shared.begin), bytes, access);
  }
  if (block.behind_shared().holds(address, 1)) {
    fail_window(warp, instruction, lane, "shared",
                address - reinterpret_cast<std::uint64_t>(shared.begin), bytes, shared.bytes);
  }
  const Range local = block.local(warp.thread(lane));
  if (local.holds(address, bytes)) return reinterpret_cast<std::byte*>(address);
  const auto parameters = block.grid().parameters;
  const bool is_parameter = Range{parameters.data(), parameters.size()}.holds(address, bytes);
  return is_parameter ? reinterpret_cast<std::byte*>(address) : nullptr;
}

void fail_race(const Warp& warp, const Instruction& instruction, int lane, const Finding& finding,
               std::size_t offset, unsigned bytes, Access access) {
  const bool reads = access == Access::read || access == Access::strong_read;
  std::string what = access_name(bytes) + " at offset " + std::to_string(offset) + ": ";
  if (finding.conflict == Conflict::uninitialised) {
    fail(warp, instruction, lane, what + "reads shared memory that the block has not written");
  }
  what += "race: this ";
  what += reads ? "read" : "write";
  what += finding.other_wrote ? " and the write of " : " and the read of ";
  if (finding.conflict == Conflict::race_of_blocks) {
    what += "another block";
  } else if (finding.other < 0) {
    what += "several other threads";
  } else {
    what += "thread " + thread_name(warp.block(), finding.other);
  }
  fail(warp, instruction, lane, what + " are not ordered by a barrier");
}

}  // namespace kvevict_ptx::detail
