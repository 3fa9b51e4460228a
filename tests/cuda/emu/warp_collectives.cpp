// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "scheduler.hpp"

namespace kvevict_emulation {
namespace {

bool has(unsigned mask, unsigned lane) { return (mask >> lane & 1u) != 0; }

// The reductions are of 32-bit integers.
std::uint32_t combine(WarpOp op, std::uint32_t a, std::uint32_t b) {
  const auto signed_a = static_cast<std::int32_t>(a);
  const auto signed_b = static_cast<std::int32_t>(b);
  switch (op) {
    case WarpOp::add:
      return a + b;
    case WarpOp::min_u:
      return std::min(a, b);
    case WarpOp::max_u:
      return std::max(a, b);
    case WarpOp::min_s:
      return static_cast<std::uint32_t>(std::min(signed_a, signed_b));
    case WarpOp::max_s:
      return static_cast<std::uint32_t>(std::max(signed_a, signed_b));
    case WarpOp::and_:
      return a & b;
    case WarpOp::or_:
      return a | b;
    default:
      return a ^ b;
  }
}

// What every lane receives, unless it depends on the lane.
LaneBits common_result(const Collective& collective) {
  bool first = true;
  std::uint32_t reduced = 0;
  std::uint32_t ballot = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (has(collective.members, lane)) {
      const LaneBits value = collective.value[lane];
      const auto word = static_cast<std::uint32_t>(value);
      ballot |= value != 0 ? 1u << lane : 0u;
      reduced = first ? word : combine(collective.op, reduced, word);
      first = false;
    }
  }
  return collective.op == WarpOp::ballot ? ballot : reduced;
}

LaneBits equal_lanes(const Collective& collective, unsigned lane) {
  LaneBits equal = 0;
  for (unsigned other = 0; other < 32; ++other) {
    if (has(collective.members, other) && collective.value[other] == collective.value[lane]) {
      equal |= LaneBits{1} << other;
    }
  }
  return equal;
}

}  // namespace

LaneBits Scheduler::warp_collective(WarpOp op, unsigned mask, int source, LaneBits value,
                                    SourceSite site) {
  if (!sanitizer::finds_races || op != WarpOp::sync) {
    return take_part(op, mask, source, value, site);
  }
  // Of all warp operations only __syncwarp orders memory.
  char* anchor = nullptr;
  {
    const AsHost scope(*this);
    anchor = join_collective(op, mask, site).anchor;
  }
  sanitizer::release(*anchor);
  const LaneBits result = take_part(op, mask, source, value, site);
  sanitizer::acquire(*anchor);
  return result;
}

// The operation that the running lane is part of: the one that other lanes have begun, or a new
// one.
Collective& Scheduler::join_collective(WarpOp op, unsigned mask, SourceSite site) {
  Warp& warp = warps_[current_ / 32];
  const unsigned lane = current_ % 32;
  const unsigned members = mask & warp.lanes;
  if (!has(mask, lane)) {
    fail("a lane calls a warp operation whose mask does not name it", site);
  }
  if ((members & warp.returned) != 0) {
    fail("the mask of a warp operation names a lane that has returned", site);
  }
  for (Collective& open : warp.open) {
    if (!has(open.members, lane)) {
      if ((open.members & members) != 0) {
        fail("warp operations with overlapping masks: others wait at " + text(open.site), site);
      }
    } else if (open.members != members || open.op != op || !same_site(open.site, site)) {
      fail("lanes of a warp meet in different operations (mask, kind or place): others wait at " +
               text(open.site),
           site);
    } else {
      return open;
    }
  }
  char& anchor = warp.anchor[block_number_ % 2][warp.begun++ % Warp::anchors];
  warp.open.push_back({members, 0, op, site, &anchor, {}, {}});
  return warp.open.back();
}

LaneBits Scheduler::take_part(WarpOp op, unsigned mask, int source, LaneBits value,
                              SourceSite site) {
  const AsHost scope(*this);
  const unsigned self = current_;
  const unsigned lane = self % 32;
  Collective& collective = join_collective(op, mask, site);
  collective.value[lane] = value;
  collective.source[lane] = source;
  collective.arrived |= 1u << lane;
  stop_as(ThreadState::in_collective, site);
  if (collective.arrived == collective.members) {
    complete(collective, self - lane);
    auto& open = warps_[self / 32].open;
    open.erase(open.begin() + (&collective - open.data()));
  }
  hand_over(false);
  return threads_[self].result;
}

void Scheduler::complete(const Collective& collective, unsigned first_thread) {
  const bool reduces = collective.op != WarpOp::sync && collective.op != WarpOp::shuffle &&
                       collective.op != WarpOp::match;
  const LaneBits common = reduces ? common_result(collective) : 0;
  const std::size_t first = queue_.size();
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!has(collective.members, lane)) {
      continue;
    }
    LaneBits result = common;
    if (collective.op == WarpOp::shuffle) {
      const int source = collective.source[lane];
      if (source < 0 || source > 31 || !has(collective.members, static_cast<unsigned>(source))) {
        fail("a shuffle of lane " + std::to_string(lane) + " reads lane " + std::to_string(source) +
                 ", which does not take part",
             collective.site);
      }
      result = collective.value[source];
    } else if (collective.op == WarpOp::match) {
      result = equal_lanes(collective, lane);
    }
    threads_[first_thread + lane].result = result;
    make_ready(first_thread + lane);
  }
  order_from(first);
}

LaneBits warp_collective(WarpOp op, unsigned mask, int source, LaneBits value, SourceSite site) {
  if (Scheduler::running() == nullptr) {
    fail("a warp operation", site);
  }
  return Scheduler::running()->warp_collective(op, mask, source, value, site);
}

}  // namespace kvevict_emulation
