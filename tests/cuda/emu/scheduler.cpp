// SPDX-License-Identifier: Apache-2.0
#include "scheduler.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "threads.hpp"

namespace kvevict_emulation {
namespace {

constinit thread_local Scheduler* running_scheduler = nullptr;

// To the race detector, threads that share a fiber are one, and barriers tie the threads of a block
// together. So even and odd blocks use separate fibers, and within these each block begins a warp
// further on: neighbouring blocks stay unordered, and equal threads of the others mostly too.
constexpr unsigned slots_per_block_step = 32;

std::string text(uint3 index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," +
         std::to_string(index.z) + ")";
}

}  // namespace

std::string text(SourceSite site) {
  return std::string(site.file_name()) + ":" + std::to_string(site.line());
}

bool same_site(SourceSite a, SourceSite b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

Scheduler::AsHost::AsHost(Scheduler& scheduler) : scheduler_(scheduler) {
  if constexpr (sanitizer::finds_races) {
    sanitizer::release(scheduler_.abandoned_);
    sanitizer::assume(scheduler_.host_.identity);
  }
}

Scheduler::AsHost::~AsHost() {
  if constexpr (sanitizer::finds_races) {
    sanitizer::assume(scheduler_.current_fiber_->identity);
  }
}

Scheduler* Scheduler::running() { return running_scheduler; }

Scheduler::~Scheduler() { free_retired(); }

std::string Scheduler::whereabouts() const {
  return std::string(grid_.name) + " block" + text(blockIdx) + " thread" +
         text(threads_[current_].index);
}

void Scheduler::fail(const std::string& what, SourceSite site) const {
  throw DeviceError(what + " [" + whereabouts() + " at " + text(site) + "]");
}

void Scheduler::run_grid(const Grid& grid, void (*body)(const void*), const void* context) {
  grid_ = grid;
  body_ = body;
  context_ = context;
  host_.identity = sanitizer::current_identity();
  random_.seed(settings().seed);
  block_number_ = 0;
  gridDim = grid.blocks;
  blockDim = grid.threads;
  size_ = grid.threads.x * grid.threads.y * grid.threads.z;

  struct Running {
    explicit Running(Scheduler* scheduler) { running_scheduler = scheduler; }
    ~Running() { running_scheduler = nullptr; }
  } const running(this);
  const std::uint64_t row = grid.blocks.x;
  const std::uint64_t plane = row * grid.blocks.y;
  const std::uint64_t blocks = plane * grid.blocks.z;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t block = settings().reverse_blocks ? blocks - 1 - i : i;
    blockIdx = {static_cast<unsigned>(block % row), static_cast<unsigned>(block % plane / row),
                static_cast<unsigned>(block / plane)};
    run_block();
    ++block_number_;
  }
  sanitizer::acquire(thread_end_);
  free_retired();
}

void Scheduler::prepare_threads() {
  // Never made smaller: the race detector's threads are dear.
  threads_.resize(std::max<std::size_t>(threads_.size(), size_));
  warps_.resize((size_ + 31) / 32);
  for (Warp& warp : warps_) {
    warp.lanes = warp.returned = 0;
    warp.begun = 0;
    warp.open.clear();
  }
  queue_.clear();
  queue_head_ = 0;
  const dim3 shape = grid_.threads;
  for (unsigned i = 0; i < size_; ++i) {
    DeviceThread& thread = threads_[i];
    thread.fiber = nullptr;
    thread.state = ThreadState::fresh;
    thread.carved = 0;
    thread.index = {i % shape.x, i / shape.x % shape.y, i / (shape.x * shape.y)};
    warps_[i / 32].lanes |= 1u << (i % 32);
    queue_.push_back(i);
  }
  order_from(0);
  finished_ = 0;
  barrier_.waiting = barrier_.satisfied = 0;
  barrier_.phase = 0;
}

void Scheduler::run_block() {
  prepare_threads();
  sanitizer::release(block_start_);
  current_fiber_ = &host_;
  hand_over(false);  // returns when every thread has finished, or one has failed
  end_block();
}

void Scheduler::end_block() {
  std::size_t static_bytes = 0;
  for (const SharedArray& array : static_arrays_) {
    static_bytes += array.bytes;
  }
  retire_shared();
  if (error_) {
    abandon_fibers();
    sanitizer::acquire(abandoned_);
    sanitizer::acquire(thread_end_);
    free_retired();
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
  if (static_bytes + grid_.dynamic_shared > grid_.shared_limit) {
    throw DeviceError(std::string(grid_.name) + ": " + std::to_string(static_bytes) +
                      " bytes of static and " + std::to_string(grid_.dynamic_shared) +
                      " of dynamic shared memory exceed the limit of " +
                      std::to_string(grid_.shared_limit));
  }
}

void Scheduler::abandon_fibers() {
  idle_.clear();
  for (const auto& fiber : fibers_) {
    fiber->restart();
    idle_.push_back(fiber.get());
  }
}

Fiber& Scheduler::fiber_for(unsigned thread) {
  if constexpr (sanitizer::finds_races) {
    const std::uint64_t slots = (size_ + 31) / 32 * 32 + slots_per_block_step;
    while (fibers_.size() < (block_number_ % 2 + 1) * slots) {
      fibers_.push_back(std::make_unique<Fiber>(&fiber_main));
    }
    const std::uint64_t slot = (thread + block_number_ / 2 * slots_per_block_step) % slots;
    return *fibers_[block_number_ % 2 * slots + slot];
  } else if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(&fiber_main));
    return *fibers_.back();
  } else {
    Fiber& fiber = *idle_.back();
    idle_.pop_back();
    return fiber;
  }
}

void Scheduler::order_from(std::size_t first) {
  const auto begin = queue_.begin() + static_cast<std::ptrdiff_t>(first);
  if (settings().thread_order == ThreadOrder::reverse) {
    std::reverse(begin, queue_.end());
  } else if (settings().thread_order == ThreadOrder::shuffled) {
    std::shuffle(begin, queue_.end(), random_);
  }
}

void Scheduler::make_ready(unsigned thread) {
  threads_[thread].state = ThreadState::ready;
  queue_.push_back(thread);
}

// Leaves the running fiber for the next runnable thread. Returns when the caller's own thread runs
// again, or, if it has finished, when its fiber is to run the thread that is now `current_`.
void Scheduler::hand_over(bool finished) {
  Fiber& self = *current_fiber_;
  const bool keeps_stack = sanitizer::finds_races || !finished;
  const bool nothing_runnable = queue_head_ == queue_.size();
  if (nothing_runnable && finished_ < size_ && !error_) {
    error_ = deadlock();
  }
  Fiber* next = &host_;
  if (!error_ && !nothing_runnable) {
    current_ = queue_[queue_head_++];
    constexpr std::size_t longest_tail = 4096;
    if (queue_head_ > longest_tail && queue_head_ * 2 > queue_.size()) {
      queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(queue_head_));
      queue_head_ = 0;
    }
    DeviceThread& thread = threads_[current_];
    threadIdx = thread.index;
    if (thread.fiber == nullptr) {
      // A kernel without barriers costs no switch: the next thread begins on the same stack.
      thread.fiber = keeps_stack ? &fiber_for(current_) : &self;
    }
    next = thread.fiber;
  }
  if (next == &self) {
    return;
  }
  if (!keeps_stack && !error_) {
    idle_.push_back(&self);
  }
  current_fiber_ = next;
  self.switch_to(*next);
}

void Scheduler::stop_as(ThreadState state, SourceSite site) {
  threads_[current_].state = state;
  threads_[current_].site = site;
}

void Scheduler::yield() {
  const AsHost scope(*this);
  make_ready(current_);
  hand_over(false);
}

void Scheduler::memory_fence() {
  sanitizer::acquire(fence_);
  sanitizer::release(fence_);
}

void Scheduler::fiber_main() {
  Scheduler& scheduler = *running_scheduler;
  Fiber::entered(scheduler.host_);
  for (;;) {
    scheduler.run_thread();
    running_scheduler->hand_over(true);
  }
}

void Scheduler::run_thread() {
  try {
    sanitizer::assume(current_fiber_->identity);
    sanitizer::acquire(block_start_);
    body_(context_);
  } catch (...) {
    error_ = std::current_exception();
  }
  sanitizer::release(thread_end_);
  sanitizer::assume(host_.identity);
  if (!error_) {
    try {
      thread_returned();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
}

void Scheduler::thread_returned() {
  threads_[current_].state = ThreadState::finished;
  ++finished_;
  Warp& warp = warps_[current_ / 32];
  const unsigned lane = 1u << (current_ % 32);
  warp.returned |= lane;
  for (const Collective& collective : warp.open) {
    if ((collective.members & lane) != 0) {
      throw DeviceError("a thread returned that other lanes wait for in a warp operation at " +
                        text(collective.site) + " [" + whereabouts() + "]");
    }
  }
  if (barrier_.waiting != 0) {
    throw DeviceError("a thread returned while others wait at the barrier at " +
                      text(barrier_.site) + " [" + whereabouts() + "]");
  }
}

std::exception_ptr Scheduler::deadlock() const {
  unsigned at_barrier = 0;
  unsigned in_collective = 0;
  SourceSite barrier_site;
  SourceSite collective_site;
  for (unsigned i = 0; i < size_; ++i) {
    if (threads_[i].state == ThreadState::at_barrier) {
      ++at_barrier;
      barrier_site = threads_[i].site;
    } else if (threads_[i].state == ThreadState::in_collective) {
      ++in_collective;
      collective_site = threads_[i].site;
    }
  }
  std::string message = "deadlock: " + std::to_string(finished_) + " threads have finished";
  if (at_barrier != 0) {
    message += ", " + std::to_string(at_barrier) + " wait at the barrier at " + text(barrier_site);
  }
  if (in_collective != 0) {
    message += ", " + std::to_string(in_collective) + " wait in a warp operation at " +
               text(collective_site);
  }
  return std::make_exception_ptr(DeviceError(message + " [" + whereabouts() + "]"));
}

void run_grid(const Grid& grid, void (*body)(const void*), const void* context) {
  if (running_scheduler != nullptr) {
    throw DeviceError(std::string(grid.name) + ": launched from inside a kernel");
  }
  static thread_local Scheduler scheduler;
  scheduler.run_grid(grid, body, context);
}

void atomic_point() {
  if (running_scheduler != nullptr && settings().switch_at_atomics) {
    running_scheduler->yield();
  }
}

void memory_fence() {
  if (running_scheduler != nullptr) {
    running_scheduler->memory_fence();
  }
}

void fail(const std::string& what, SourceSite site) {
  if (running_scheduler == nullptr) {
    throw DeviceError(what + " [outside of a kernel, at " + text(site) + "]");
  }
  running_scheduler->fail(what, site);
}

}  // namespace kvevict_emulation
