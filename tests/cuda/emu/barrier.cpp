// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "scheduler.hpp"

namespace kvevict_emulation {

int Scheduler::barrier(BarrierKind kind, bool predicate, SourceSite site) {
  // Two places in turn: a fast thread's arrival at the next barrier must not count for this one.
  // Blocks alternate as well, so that neighbouring blocks stay unordered.
  char& anchor = barrier_anchor_[block_number_ % 2 * 2 + barrier_.phase % 2];
  sanitizer::release(anchor);
  const int result = wait_at_barrier(kind, predicate, site);
  sanitizer::acquire(anchor);
  return result;
}

int Scheduler::wait_at_barrier(BarrierKind kind, bool predicate, SourceSite site) {
  const AsHost scope(*this);
  if (finished_ != 0) {
    fail("a barrier is reached after another thread of the block has returned", site);
  }
  if (barrier_.waiting == 0) {
    barrier_.kind = kind;
    barrier_.site = site;
  } else if (barrier_.kind != kind || !same_site(barrier_.site, site)) {
    fail("divergent barrier: others wait at " + text(barrier_.site), site);
  }
  ++barrier_.waiting;
  barrier_.satisfied += predicate ? 1 : 0;
  const unsigned self = current_;
  stop_as(ThreadState::at_barrier, site);
  if (barrier_.waiting == size_) {
    release_barrier();
  }
  hand_over(false);
  return static_cast<int>(threads_[self].result);
}

void Scheduler::release_barrier() {
  LaneBits result = barrier_.satisfied;
  if (barrier_.kind == BarrierKind::any) {
    result = barrier_.satisfied != 0;
  } else if (barrier_.kind == BarrierKind::all) {
    result = barrier_.satisfied == size_;
  }
  barrier_.waiting = barrier_.satisfied = 0;
  ++barrier_.phase;
  const std::size_t first = queue_.size();
  for (unsigned thread = 0; thread < size_; ++thread) {
    threads_[thread].result = result;
    make_ready(thread);
  }
  order_from(first);
}

int barrier(BarrierKind kind, bool predicate, SourceSite site) {
  if (Scheduler::running() == nullptr) {
    fail("a barrier", site);
  }
  return Scheduler::running()->barrier(kind, predicate, site);
}

}  // namespace kvevict_emulation
