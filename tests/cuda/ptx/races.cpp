// SPDX-License-Identifier: Apache-2.0
#include "races.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace kvevict_ptx {

void BlockClock::begin_block(int warps) {
  warps_.assign(static_cast<std::size_t>(warps), {});
  first_epoch_ = ++epoch_;
  fenced_ = false;
}

void BlockClock::synchronize(int warp, LaneMask members, LaneMask live) {
  WarpClock& clock = warps_[static_cast<std::size_t>(warp)];
  if (members == live) {
    clock.all = clock.now++;
    return;
  }
  if (clock.known.empty()) clock.known.resize(warp_lanes);
  std::array<std::uint32_t, warp_lanes> joined{};
  for (LaneMask rest = members; rest != 0; rest &= rest - 1) {
    const auto& known = clock.known[static_cast<std::size_t>(std::countr_zero(rest))];
    for (std::size_t q = 0; q < warp_lanes; ++q) joined[q] = std::max(joined[q], known[q]);
  }
  for (std::size_t q = 0; q < warp_lanes; ++q) {
    if ((members >> q & 1) != 0) joined[q] = clock.now;
  }
  for (LaneMask rest = members; rest != 0; rest &= rest - 1) {
    clock.known[static_cast<std::size_t>(std::countr_zero(rest))] = joined;
  }
  ++clock.now;
}

LaneMask BlockClock::unordered(int warp, int lane, LaneMask lanes, std::uint32_t stamp) const {
  const WarpClock& clock = warps_[static_cast<std::size_t>(warp)];
  lanes &= ~(LaneMask{1} << lane);
  if (stamp <= clock.all) return 0;
  if (clock.known.empty()) return lanes;
  const auto& known = clock.known[static_cast<std::size_t>(lane)];
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const int q = std::countr_zero(rest);
    if (known[static_cast<std::size_t>(q)] >= stamp) lanes &= ~(LaneMask{1} << q);
  }
  return lanes;
}

void RaceChecker::Release::operator()(void* memory) const { std::free(memory); }

RaceChecker::Cells RaceChecker::zeroed(std::size_t count) {
  // Zero pages cost nothing until they are touched; most of a large allocation never is.
  void* memory = std::calloc(std::max<std::size_t>(count, 1), sizeof(Cell));
  if (memory == nullptr) throw std::bad_alloc();
  return Cells(static_cast<Cell*>(memory));
}

RaceChecker::RaceChecker(std::size_t bytes, bool private_to_block)
    : bytes_(bytes), private_to_block_(private_to_block), words_(zeroed(bytes / 4 + 1)) {}

Finding RaceChecker::check_slowly(const BlockClock& clock, std::size_t offset, std::size_t bytes,
                                  Access access, int thread) {
  const std::size_t end = offset + bytes;
  for (std::size_t at = offset; at < end;) {
    Cell& word = words_[at / 4];
    const std::size_t next = std::min((at / 4 + 1) * 4, end);
    if (next - at == 4 && !word.in_bytes) {
      const Finding finding = check_cell(clock, word, access, thread);
      if (finding.conflict != Conflict::none) return finding;
      at = next;
      continue;
    }
    if (parts_ == nullptr) parts_ = zeroed((bytes_ / 4 + 1) * 4);
    if (!word.in_bytes) {
      std::fill_n(&parts_[at / 4 * 4], 4, word);
      word.in_bytes = true;
    }
    for (; at < next; ++at) {
      const Finding finding = check_cell(clock, parts_[at], access, thread);
      if (finding.conflict != Conflict::none) return finding;
    }
  }
  return {};
}

Finding RaceChecker::check_cell(const BlockClock& clock, Cell& cell, Access access,
                                int thread) const {
  const bool writes = access == Access::write || access == Access::strong_write;
  const bool strong = access == Access::strong_read || access == Access::strong_write;
  if (private_to_block_ && !writes && cell.written.epoch < clock.first_epoch()) {
    return {Conflict::uninitialised, -1, false};
  }
  if (!strong || (writes && !cell.written.strong)) {
    Finding finding = compare(clock, cell.written, thread);
    finding.other_wrote = true;
    if (finding.conflict != Conflict::none) return finding;
  }
  if (writes) {
    const Finding finding = compare(clock, cell.read, thread);
    if (finding.conflict != Conflict::none) return finding;
    note(clock, cell.written, thread, strong);
  } else if (!strong) {
    note(clock, cell.read, thread, false);
  }
  return {};
}

Finding RaceChecker::compare(const BlockClock& clock, const Record& record, int thread) const {
  if (record.epoch < clock.first_epoch()) {
    const bool other_block = record.epoch != 0 && !private_to_block_;
    return {other_block && !clock.fenced() ? Conflict::race_of_blocks : Conflict::none, -1, false};
  }
  if (record.epoch != clock.epoch() || record.lanes == 0) return {};
  const int warp = thread / warp_lanes;
  if (record.warp == several_warps) return {Conflict::race_in_block, -1, false};
  LaneMask lanes = record.lanes;
  if (record.warp == warp) {
    lanes = clock.unordered(warp, thread % warp_lanes, lanes, record.stamp);
    if (lanes == 0) return {};
  }
  return {Conflict::race_in_block, record.warp * warp_lanes + std::countr_zero(lanes), false};
}

void RaceChecker::note(const BlockClock& clock, Record& record, int thread, bool strong) {
  const auto warp = static_cast<std::uint16_t>(thread / warp_lanes);
  const int lane = thread % warp_lanes;
  const LaneMask bit = LaneMask{1} << lane;
  const bool joins = record.epoch == clock.epoch() && record.strong == strong;
  if (joins && record.warp == several_warps) return;
  if (joins && record.warp != warp) {
    record.warp = several_warps;
    return;
  }
  LaneMask lanes = bit;
  // Earlier accesses that are ordered before this one are covered by it.
  if (joins) lanes |= clock.unordered(warp, lane, record.lanes, record.stamp);
  record = {clock.epoch(), clock.stamp(warp), lanes, warp, strong};
}

}  // namespace kvevict_ptx
