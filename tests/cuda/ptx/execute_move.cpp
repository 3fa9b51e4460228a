// SPDX-License-Identifier: Apache-2.0
// Moves between registers, address arithmetic between spaces, clocks and fences.
#include <cstring>

#include "block.hpp"
#include "failure.hpp"
#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

template <class T>
struct Same {
  T operator()(T a) const { return a; }
};

std::uint64_t base_of(const Warp& warp, int lane, Space space) {
  const Block& block = warp.block();
  switch (space) {
    case Space::shared:
      return reinterpret_cast<std::uint64_t>(block.shared().begin);
    case Space::local:
      return reinterpret_cast<std::uint64_t>(block.local(warp.thread(lane)).begin);
    case Space::param:
      return reinterpret_cast<std::uint64_t>(block.grid().parameters.data());
    default:
      return 0;
  }
}

template <bool to_generic>
void convert_address(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto* from = warp.lanes<std::uint64_t>(instruction.slots[1]);
  auto* to = warp.lanes<std::uint64_t>(instruction.slots[0]);
  for_each_lane(active, [&](int lane) {
    const std::uint64_t base = base_of(warp, lane, instruction.space);
    to[lane] = to_generic ? from[lane] + base : from[lane] - base;
  });
}

void is_in_space(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto* address = warp.lanes<std::uint64_t>(instruction.slots[1]);
  LaneMask truth = 0;
  for_each_lane(active, [&](int lane) {
    const Block& block = warp.block();
    const bool shared = block.shared().holds(address[lane], 1);
    const bool local = block.local(warp.thread(lane)).holds(address[lane], 1);
    const bool inside = instruction.space == Space::shared  ? shared
                        : instruction.space == Space::local ? local
                                                            : !shared && !local;
    truth |= static_cast<LaneMask>(inside) << lane;
  });
  warp.set_predicate(instruction.slots[0], truth, active);
}

// Elements are `register_bytes` wide, the whole is `bytes`; the first element is the lowest.
void pack(Warp& warp, const Instruction& instruction, LaneMask active) {
  const Slot* elements = &warp.block().grid().program.slots[instruction.target];
  auto* to = warp.lanes<std::byte>(instruction.slots[0]);
  const std::size_t width = instruction.register_bytes;
  for_each_lane(active, [&](int lane) {
    std::byte whole[8];
    for (std::size_t e = 0; e < instruction.elements; ++e) {
      const auto* from = warp.lanes<std::byte>(elements[e]);
      std::memcpy(whole + e * width, from + static_cast<std::size_t>(lane) * width, width);
    }
    std::memcpy(to + static_cast<std::size_t>(lane) * instruction.bytes, whole, instruction.bytes);
  });
}

void unpack(Warp& warp, const Instruction& instruction, LaneMask active) {
  const Slot* elements = &warp.block().grid().program.slots[instruction.target];
  const auto* from = warp.lanes<std::byte>(instruction.slots[1]);
  const std::size_t width = instruction.register_bytes;
  for_each_lane(active, [&](int lane) {
    const std::byte* whole = from + static_cast<std::size_t>(lane) * instruction.bytes;
    for (std::size_t e = 0; e < instruction.elements; ++e) {
      if (elements[e] == no_slot) continue;
      auto* to = warp.lanes<std::byte>(elements[e]);
      std::memcpy(to + static_cast<std::size_t>(lane) * width, whole + e * width, width);
    }
  });
}

template <class T>
void read_clock(Warp& warp, const Instruction& instruction, LaneMask active) {
  T* to = warp.lanes<T>(instruction.slots[0]);
  for_each_lane(active, [&](int lane) { to[lane] = static_cast<T>(warp.steps()); });
}

void fence_device(Warp& warp, const Instruction&, LaneMask) { warp.block().clock().fence(); }
void do_nothing(Warp&, const Instruction&, LaneMask) {}
void trap(Warp& warp, const Instruction& instruction, LaneMask active) {
  fail(warp, instruction, std::countr_zero(active), "trap");
}

}  // namespace

Handler select_copy(int bytes) {
  switch (bytes) {
    case 2:
      return &unary<std::uint16_t, std::uint16_t, Same<std::uint16_t>>;
    case 4:
      return &unary<std::uint32_t, std::uint32_t, Same<std::uint32_t>>;
    case 8:
      return &unary<std::uint64_t, std::uint64_t, Same<std::uint64_t>>;
    default:
      return nullptr;
  }
}

Handler select_clock(int bytes) {
  return bytes == 8   ? &read_clock<std::uint64_t>
         : bytes == 4 ? &read_clock<std::uint32_t>
                      : nullptr;
}

Handler select_pack(bool packs) { return packs ? &pack : &unpack; }

Selection select_address(const Opcode& opcode) {
  if (opcode.type() != Type::u64 && opcode.name == "cvta") return {};
  if (opcode.name == "cvta") {
    return {opcode.has("to") ? &convert_address<false> : &convert_address<true>, {8, 8}};
  }
  return {&is_in_space, {1, 8}};
}

Selection select_effectless(const Opcode& opcode) {
  const std::string_view name = opcode.name;
  if (name == "trap") return {&trap, {}};
  if (name == "membar" || name == "fence") {
    const bool in_block = opcode.has("cta");
    return {in_block ? &do_nothing : &fence_device, {}};
  }
  for (const std::string_view other : {"nanosleep", "prefetch", "prefetchu", "griddepcontrol",
                                       "pmevent", "discard", "applypriority", "createpolicy"}) {
    if (name == other) return {&do_nothing, {}};
  }
  return {};
}

}  // namespace kvevict_ptx
