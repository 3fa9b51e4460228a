// SPDX-License-Identifier: Apache-2.0
// Loads and stores, of scalars and vectors.
#include <cstring>
#include <type_traits>

#include "address.hpp"
#include "lanes.hpp"
#include "opcode.hpp"

namespace kvevict_ptx {
namespace {

template <int bytes>
using Bits = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t,
                       std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

/// The registers of a vector, or the one that is not a vector.
const Slot* element_slots(const Warp& warp, const Instruction& instruction, std::size_t operand) {
  return instruction.elements == 1 ? &instruction.slots[operand]
                                   : &warp.block().grid().program.slots[instruction.target];
}

template <Space space, int bytes, int register_bytes>
void load(Warp& warp, const Instruction& instruction, LaneMask active) {
  const unsigned total = bytes * instruction.elements;
  const Slot* targets = element_slots(warp, instruction, 0);
  const Access access = instruction.with.strong ? Access::strong_read : Access::read;
  const bool extends_sign = instruction.with.kind != 0;
  for_each_lane(active, [&](int lane) {
    const std::byte* from = resolve<space>(warp, instruction, lane,
                                           address_of(warp, instruction, lane, 1), total, access);
    for (std::size_t e = 0; e < instruction.elements; ++e, from += bytes) {
      if (targets[e] == no_slot) continue;
      Bits<bytes> value;
      std::memcpy(&value, from, bytes);
      auto widened = static_cast<Bits<register_bytes>>(value);
      if constexpr (register_bytes > bytes) {
        if (extends_sign) {
          using Signed = std::make_signed_t<Bits<bytes>>;
          widened = static_cast<Bits<register_bytes>>(static_cast<Signed>(value));
        }
      }
      warp.lanes<Bits<register_bytes>>(targets[e])[lane] = widened;
    }
  });
}

template <Space space, int bytes, int register_bytes>
void store_to(Warp& warp, const Instruction& instruction, LaneMask active) {
  const unsigned total = bytes * instruction.elements;
  const Slot* sources = element_slots(warp, instruction, 1);
  const Access access = instruction.with.strong ? Access::strong_write : Access::write;
  for_each_lane(active, [&](int lane) {
    std::byte* to = resolve<space>(warp, instruction, lane, address_of(warp, instruction, lane, 0),
                                   total, access);
    for (std::size_t e = 0; e < instruction.elements; ++e, to += bytes) {
      const auto value =
          static_cast<Bits<bytes>>(warp.lanes<Bits<register_bytes>>(sources[e])[lane]);
      std::memcpy(to, &value, bytes);
    }
  });
}

template <Space space, bool loads, int bytes>
Handler access_of(int register_bytes) {
  const auto choose = [&]<int wide>() -> Handler {
    if constexpr (wide < bytes) return nullptr;
    return loads ? &load<space, bytes, wide> : &store_to<space, bytes, wide>;
  };
  if (register_bytes == 2) return choose.template operator()<2>();
  if (register_bytes == 4) return choose.template operator()<4>();
  if (register_bytes == 8) return choose.template operator()<8>();
  return nullptr;
}

template <Space space, bool loads>
Handler access_in(int bytes, int register_bytes) {
  if (bytes == 1) return access_of<space, loads, 1>(register_bytes);
  if (bytes == 2) return access_of<space, loads, 2>(register_bytes);
  if (bytes == 4) return access_of<space, loads, 4>(register_bytes);
  if (bytes == 8) return access_of<space, loads, 8>(register_bytes);
  return nullptr;
}

template <bool loads>
Handler select_access(Space space, int bytes, int register_bytes) {
  switch (space) {
    case Space::shared:
      return access_in<Space::shared, loads>(bytes, register_bytes);
    case Space::local:
      return access_in<Space::local, loads>(bytes, register_bytes);
    case Space::param:
      return loads ? access_in<Space::param, loads>(bytes, register_bytes) : nullptr;
    case Space::global:
    case Space::constant:
      return access_in<Space::global, loads>(bytes, register_bytes);
    case Space::generic:
      return access_in<Space::generic, loads>(bytes, register_bytes);
    case Space::reg:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

Handler select_load(Space space, int bytes, int register_bytes) {
  return select_access<true>(space, bytes, register_bytes);
}

Handler select_store(Space space, int bytes, int register_bytes) {
  return select_access<false>(space, bytes, register_bytes);
}

}  // namespace kvevict_ptx
