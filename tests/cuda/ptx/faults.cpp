// SPDX-License-Identifier: Apache-2.0
#include "faults.hpp"

#include <bit>
#include <cstring>

#include "address.hpp"
#include "failure.hpp"

namespace kvevict_ptx {

void report_fault(Warp& warp, const Instruction& instruction, LaneMask active) {
  const Program& program = warp.block().grid().program;
  fail(warp, instruction, std::countr_zero(active),
       "not supported: " + program.faults[instruction.target]);
}

void report_assertion(Warp& warp, const Instruction& instruction, LaneMask active) {
  const int lane = std::countr_zero(active);
  const std::byte* slot =
      resolve<Space::local>(warp, instruction, lane, static_cast<std::uint64_t>(instruction.offset),
                            sizeof(std::uint64_t), Access::read);
  std::uint64_t address = 0;
  std::memcpy(&address, slot, sizeof address);
  std::string text;
  for (;; ++address) {
    const auto c = static_cast<char>(
        *resolve<Space::global>(warp, instruction, lane, address, 1, Access::strong_read));
    if (c == '\0') break;
    text += c;
  }
  fail(warp, instruction, lane, "assertion failed: " + text);
}

}  // namespace kvevict_ptx
