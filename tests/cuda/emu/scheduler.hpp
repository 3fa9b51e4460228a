// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs a grid on the calling thread: block after block, the threads of a block on fibers that hand
// over to each other where they wait. Memory is ordered between threads, as far as ThreadSanitizer
// is told, only where CUDA orders it.
#include <cuda_runtime_api.h>

#include <exception>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fiber.hpp"
#include "kernel_interface.hpp"
#include "launch.hpp"
#include "settings.hpp"

namespace kvevict_emulation {

enum class ThreadState : unsigned char { fresh, ready, at_barrier, in_collective, finished };

struct DeviceThread {
  Fiber* fiber = nullptr;
  ThreadState state = ThreadState::fresh;
  uint3 index{};
  SourceSite site;      // where it waits
  LaneBits result = 0;  // of what it waited for
  std::size_t carved = 0;
};

/// A warp operation that some lanes have reached.
struct Collective {
  unsigned members;
  unsigned arrived;
  WarpOp op;
  SourceSite site;
  char* anchor;
  LaneBits value[32];
  int source[32];
};

struct Warp {
  static constexpr std::size_t anchors = 8;
  unsigned lanes = 0;
  unsigned returned = 0;
  std::vector<Collective> open;
  std::size_t begun = 0;
  char anchor[2][anchors] = {};  // of even and of odd blocks
};

/// An array in shared memory, allocated on its own so that an overrun is one.
struct SharedArray {
  const void* key;  // of a static array
  unsigned char* memory;
  std::size_t bytes;
};

std::string text(SourceSite site);
bool same_site(SourceSite a, SourceSite b);

class Scheduler {
 public:
  ~Scheduler();

  /// The scheduler whose grid the calling thread runs, or null outside of kernels.
  static Scheduler* running();

  void run_grid(const Grid& grid, void (*body)(const void*), const void* context);

  int barrier(BarrierKind kind, bool predicate, SourceSite site);
  LaneBits warp_collective(WarpOp op, unsigned mask, int source, LaneBits value, SourceSite site);
  void* static_shared(const void* key, std::size_t bytes, std::size_t alignment);
  void* carve(std::size_t bytes, std::size_t alignment);
  void yield();
  void memory_fence();
  [[noreturn]] void fail(const std::string& what, SourceSite site) const;

 private:
  /// While it lives, the sanitizer takes what happens for the host's doing and not the thread's.
  class AsHost {
   public:
    explicit AsHost(Scheduler& scheduler);
    ~AsHost();
    AsHost(const AsHost&) = delete;
    AsHost& operator=(const AsHost&) = delete;

   private:
    Scheduler& scheduler_;
  };

  // scheduler.cpp
  static void fiber_main();
  void run_block();
  void prepare_threads();
  void end_block();
  void abandon_fibers();
  void run_thread();
  void thread_returned();
  void hand_over(bool finished);
  void stop_as(ThreadState state, SourceSite site);
  void make_ready(unsigned thread);
  void order_from(std::size_t first);
  Fiber& fiber_for(unsigned thread);
  std::exception_ptr deadlock() const;
  std::string whereabouts() const;

  // barrier.cpp
  int wait_at_barrier(BarrierKind kind, bool predicate, SourceSite site);
  void release_barrier();

  // warp_collectives.cpp
  Collective& join_collective(WarpOp op, unsigned mask, SourceSite site);
  LaneBits take_part(WarpOp op, unsigned mask, int source, LaneBits value, SourceSite site);
  void complete(const Collective& collective, unsigned first_thread);

  // shared_memory.cpp
  void* find_static_shared(const void* key, std::size_t bytes, std::size_t alignment);
  void* next_carved(std::size_t bytes, std::size_t alignment);
  void retire_shared();
  void free_retired();

  Grid grid_{};
  void (*body_)(const void*) = nullptr;
  const void* context_ = nullptr;
  std::uint64_t block_number_ = 0;

  Fiber host_;
  Fiber* current_fiber_ = &host_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::mt19937_64 random_;

  std::vector<DeviceThread> threads_;
  std::vector<Warp> warps_;
  unsigned size_ = 0;     // threads of the block
  unsigned current_ = 0;  // thread
  unsigned finished_ = 0;
  std::vector<unsigned> queue_;  // of runnable threads
  std::size_t queue_head_ = 0;
  std::exception_ptr error_;

  struct Barrier {
    BarrierKind kind = BarrierKind::plain;
    SourceSite site;
    unsigned waiting = 0;
    unsigned satisfied = 0;  // predicates that were true
    std::uint64_t phase = 0;
  };
  Barrier barrier_;

  std::vector<SharedArray> static_arrays_;
  std::vector<SharedArray> carved_arrays_;
  std::size_t carved_bytes_ = 0;
  std::vector<unsigned char*> retired_;

  // Places by which the sanitizer is told of an order.
  char block_start_ = 0;
  char thread_end_ = 0;
  char fence_ = 0;
  char abandoned_ = 0;
  char barrier_anchor_[4] = {};
};

}  // namespace kvevict_emulation
