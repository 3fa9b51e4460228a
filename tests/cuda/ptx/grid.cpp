// SPDX-License-Identifier: Apache-2.0
#include "grid.hpp"

#include "../emu/device.hpp"
#include "../emu/settings.hpp"
#include "block.hpp"
#include "ptx_settings.hpp"

namespace kvevict_ptx {
namespace {

Range find_range(std::uint64_t address) {
  const auto place =
      kvevict_emulation::device().memory.find(reinterpret_cast<const void*>(address));
  return {reinterpret_cast<const std::byte*>(place.base), place.bytes};
}

}  // namespace

Grid::Grid(const Program& kernel, dim3 block_count, dim3 thread_count, std::size_t dynamic_bytes,
           std::span<const std::byte> parameter_bytes)
    : program(kernel),
      blocks(block_count),
      threads(thread_count),
      dynamic_shared(dynamic_bytes),
      parameters(parameter_bytes),
      last_(kernel.code.size()) {}

Allocation Grid::allocation(std::uint64_t address) {
  Allocation allocation{find_range(address), nullptr};
  const Range& range = allocation.range;
  if (range.begin == nullptr || !ptx_settings().global_races) return allocation;
  auto& races = races_[range.begin];
  if (races == nullptr) races = std::make_unique<RaceChecker>(range.bytes, false);
  allocation.races = races.get();
  return allocation;
}

Range Grid::allocation_before(std::uint64_t address) {
  constexpr std::uint64_t far = 1 << 12;
  constexpr std::uint64_t step = 16;  // allocations are not smaller than their alignment
  for (std::uint64_t distance = 1; distance < far; distance += step) {
    if (const Range range = find_range(address - distance); range.begin != nullptr) return range;
  }
  return {};
}

void Grid::run() {
  Block block(*this);
  const std::uint64_t count = std::uint64_t{blocks.x} * blocks.y * blocks.z;
  const bool reverse = kvevict_emulation::settings().reverse_blocks;
  for (std::uint64_t k = 0; k < count; ++k) {
    const std::uint64_t b = reverse ? count - 1 - k : k;
    block.run({static_cast<unsigned>(b % blocks.x), static_cast<unsigned>(b / blocks.x % blocks.y),
               static_cast<unsigned>(b / (std::uint64_t{blocks.x} * blocks.y))});
  }
  lane_instructions_ = block.lane_steps();
}

}  // namespace kvevict_ptx
