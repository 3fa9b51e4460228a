// SPDX-License-Identifier: Apache-2.0
// cp.async. A copy is done at the last moment, when its thread waits for it; until then the target
// holds bytes that no program expects, so that a missing wait shows.
#include <algorithm>
#include <cstring>
#include <vector>

#include "address.hpp"
#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

// Slots: target, source, bytes, and bytes of the source to read (the rest becomes zero).
void begin_copy(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto* sources = warp.lanes<std::uint64_t>(instruction.slots[1]);
  const auto* sizes = warp.lanes<std::uint32_t>(instruction.slots[2]);
  for_each_lane(active, [&](int lane) {
    const std::uint32_t bytes = sizes[lane];
    const Slot limit = instruction.slots[3];
    const std::uint32_t read =
        limit == no_slot ? bytes : std::min(bytes, warp.lanes<std::uint32_t>(limit)[lane]);
    const std::uint64_t to = address_of(warp, instruction, lane, 0);
    std::byte* target = resolve<Space::shared>(warp, instruction, lane, to, bytes, Access::write);
    std::memset(target, 0xff, bytes);
    if (sources[lane] % bytes != 0) {
      detail::fail_alignment(warp, instruction, lane, sources[lane], bytes);
    }
    const std::byte* source = nullptr;
    for (std::uint32_t at = 0, step = 0; at < read; at += step) {
      step = read - at >= 4 ? 4 : 1;
      const std::byte* piece =
          resolve<Space::global>(warp, instruction, lane, sources[lane] + at, step, Access::read);
      if (at == 0) source = piece;
    }
    AsyncCopies& copies = warp.copies();
    copies.pending.push_back(
        {to, source, bytes, read, lane, copies.commits[static_cast<std::size_t>(lane)]});
  });
}

void commit(Warp& warp, const Instruction&, LaneMask active) {
  for_each_lane(active, [&](int lane) { ++warp.copies().commits[static_cast<std::size_t>(lane)]; });
}

/// Finishes the copies of all but the last slots[0] groups that a lane has committed, or (kind 1)
/// every copy.
void wait(Warp& warp, const Instruction& instruction, LaneMask active) {
  AsyncCopies& copies = warp.copies();
  const bool everything = instruction.with.kind != 0;
  std::erase_if(copies.pending, [&](const AsyncCopies::Copy& copy) {
    if ((active >> copy.lane & 1) == 0) return false;
    if (!everything) {
      const std::uint32_t younger = warp.lanes<std::uint32_t>(instruction.slots[0])[copy.lane];
      const std::uint64_t commits = copies.commits[static_cast<std::size_t>(copy.lane)];
      if (copy.group + younger >= commits) return false;
    }
    std::byte* target =
        resolve<Space::shared>(warp, instruction, copy.lane, copy.to, copy.bytes, Access::write);
    std::memset(target, 0, copy.bytes);
    if (copy.read > 0) std::memcpy(target, copy.from, copy.read);
    return true;
  });
}

}  // namespace

Selection select_async(const Opcode& opcode, Modifiers& with) {
  if (opcode.name != "cp" || !opcode.has("async") || opcode.has("bulk")) return {};
  if (opcode.has("commit_group")) return {&commit, {}};
  if (opcode.has("wait_group")) return {&wait, {4}};
  if (opcode.has("wait_all")) {
    with.kind = 1;
    return {&wait, {}};
  }
  if (opcode.has("ca") || opcode.has("cg")) return {&begin_copy, {4, 8, 4, 4}};
  return {};
}

}  // namespace kvevict_ptx
