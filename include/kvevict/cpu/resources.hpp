// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>

#include "kvevict/core/memory_space.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/cpu/thread_pool.hpp"

namespace kvevict::cpu {

/// An engine's own parallel-for. `run(context, count, task, data)` calls `task(data, i, worker)`
/// once for every i in [0, count) with worker in [0, threads), no two tasks at a time with the same
/// worker, and returns when all are done.
struct ParallelFor {
  void (*run)(void* context, std::int64_t count, Task task, void* data) = nullptr;
  void* context = nullptr;
};

struct ResourcesOptions {
  int threads = 0;                ///< 0: one for each hardware thread
  ParallelFor parallel_for = {};  ///< empty: a pool of its own
  void* workspace = nullptr;      ///< caller's scratch memory; null: owned, grown on demand
  std::size_t workspace_bytes = 0;
};

/// Threads and scratch memory of the CPU backend; the first argument of every call. Calls return
/// when their work is done. One object serves one calling thread at a time.
class Resources {
 public:
  static constexpr MemorySpace space = MemorySpace::host;
  using selection_type = Selection;

  explicit Resources(const ResourcesOptions& options = {})
      : threads_(options.threads), external_(options.parallel_for) {
    require(options.threads >= 0, "threads", options.threads, ">=", 0);
    if (threads_ == 0)
      threads_ = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    if (options.workspace != nullptr) {
      workspace_ = Workspace(options.workspace, options.workspace_bytes);
    }
    if (external_.run == nullptr) pool_ = std::make_unique<ThreadPool>(threads_);
  }

  /// Resources that compute nothing and record how much workspace a call would carve.
  static Resources counting(const Resources& like) {
    Resources resources(ResourcesOptions{.threads = like.threads_});
    resources.workspace_ = Workspace::counter();
    return resources;
  }

  int threads() const { return threads_; }
  Workspace& workspace() { return workspace_; }
  Workspace& host_workspace() { return workspace_; }

  Report& report() { return report_; }
  void reset_report() { report_ = {}; }
  void reset_nan_scores() { report_.nan_scores = 0; }
  void deliver_report(Selection& kept) const { kept.set_report(report_); }

  void make_room(Selection& kept, std::span<const std::int64_t> counts) const {
    kept.reshape(counts);
  }

  /// Calls `body(index, worker)` for every index in [0, count), on several threads. Which thread
  /// runs which index is open: a body writes only what belongs to its index, so that results do not
  /// depend on the number of threads.
  template <class Body>
  void parallel_for(std::int64_t count, Body&& body) {
    using Function = std::remove_reference_t<Body>;
    const Task task = [](void* data, std::int64_t index, int worker) {
      (*static_cast<Function*>(data))(index, worker);
    };
    void* data = const_cast<void*>(static_cast<const void*>(std::addressof(body)));
    if (external_.run != nullptr) {
      external_.run(external_.context, count, task, data);
    } else {
      pool_->run(count, task, data);
    }
  }

 private:
  int threads_;
  ParallelFor external_;
  std::unique_ptr<ThreadPool> pool_;
  Workspace workspace_;
  Report report_;
};

}  // namespace kvevict::cpu

namespace kvevict {

/// An alias, so that argument-dependent lookup finds the backend's namespace.
using CpuResources = cpu::Resources;

}  // namespace kvevict
