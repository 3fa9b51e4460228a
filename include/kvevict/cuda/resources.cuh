// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvevict/core/memory_space.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/memory.cuh"
#include "kvevict/cuda/selection.cuh"
#include "kvevict/cuda/solver.cuh"
#include "kvevict/cuda/upload.cuh"

namespace kvevict::cuda {

/// Dynamic shared memory that a kernel may use without asking for it.
inline constexpr std::size_t default_shared_bytes = 48 * 1024;

/// What ops count on the device; kvevict::Report once it is read.
struct Counters {
  unsigned long long nan_scores;
  unsigned long long zero_capacity_heads;
  unsigned long long failed_factorizations;
};

/// Limits of a device that launches depend on.
struct DeviceLimits {
  int multiprocessors = 0;
  int shared_bytes = 0;  ///< of one block, when asked for
};

struct ResourcesOptions {
  cudaStream_t stream = nullptr;  ///< where all work goes; null: the default stream
  void* workspace = nullptr;      ///< caller's scratch memory on the device; null: owned
  std::size_t workspace_bytes = 0;
};

/// Stream, scratch memory and cuSOLVER handle of the CUDA backend; the first argument of every
/// call. Calls enqueue their work on the stream and return; views, and the buffers behind them,
/// must live until the stream has come so far. What waits for the stream says so.
///
/// Once a call of the same shapes has been made, nothing is allocated, and calls that do not wait
/// can be captured in a graph. One object serves one host thread at a time, with the device current
/// that was current when it was made; the stream outlives it.
class Resources {
 public:
  static constexpr MemorySpace space = MemorySpace::device;
  using selection_type = Selection;

  explicit Resources(const ResourcesOptions& options = {})
      : stream_(options.stream),
        workspace_(options.workspace != nullptr
                       ? Workspace(options.workspace, options.workspace_bytes)
                       : Workspace(stream_ordered_memory(options.stream))),
        solver_(options.stream) {
    int device = 0;
    require_success(cudaGetDevice(&device), "cudaGetDevice");
    require_success(
        cudaDeviceGetAttribute(&limits_.multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
    require_success(cudaDeviceGetAttribute(&limits_.shared_bytes,
                                           cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                    "cudaDeviceGetAttribute");
    counters_.resize(stream_, 1);
    reset_report();
  }

  /// A stream and nothing else.
  explicit Resources(cudaStream_t stream) : Resources(ResourcesOptions{.stream = stream}) {}

  /// Resources that compute nothing and record how much workspace a call would carve.
  static Resources counting(const Resources& like) { return Resources(like.limits_); }

  cudaStream_t stream() const { return stream_; }
  const DeviceLimits& limits() const { return limits_; }
  Workspace& workspace() { return workspace_; }
  Workspace& host_workspace() { return host_workspace_; }
  cusolverDnHandle_t solver() { return solver_.get(); }
  /// Device memory.
  Counters* counters() const { return counters_.data(); }

  /// Waits for everything that was enqueued on the stream.
  void wait() const { require_success(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  /// What the calls since the last evict or score_rows counted. Waits for the stream.
  Report report() const {
    Counters counters{};
    require_success(cudaMemcpyAsync(&counters, counters_.data(), sizeof counters,
                                    cudaMemcpyDeviceToHost, stream_),
                    "cudaMemcpyAsync");
    wait();
    return {static_cast<std::int64_t>(counters.nan_scores),
            static_cast<std::int64_t>(counters.zero_capacity_heads),
            static_cast<std::int64_t>(counters.failed_factorizations)};
  }
  void reset_report() { clear(counters_.data(), sizeof(Counters)); }
  void reset_nan_scores() { clear(counters_.data(), sizeof(Counters::nan_scores)); }
  /// Nothing: reading the report waits, which only `report()` does.
  void deliver_report(Selection&) const {}

  /// Copies a selection that was made on the host, such as the rows of the blocks that an engine
  /// keeps, to the device. `from` must live until the stream has come so far.
  void upload_selection(const kvevict::Selection& from, Selection& to) {
    std::vector<std::int64_t> counts;
    for (std::int64_t h = 0; h < from.heads(); ++h) counts.push_back(from.count(h));
    make_room(to, counts);
    if (from.total() == 0) return;
    require_success(cudaMemcpyAsync(to.indices_data(), from.indices().data(),
                                    static_cast<std::size_t>(from.total()) * sizeof(std::int32_t),
                                    cudaMemcpyHostToDevice, stream_),
                    "cudaMemcpyAsync");
  }

  void make_room(Selection& kept, std::span<const std::int64_t> counts) {
    kept.reshape(stream_, counts,
                 [&](const std::int64_t* from, std::int64_t count, std::int64_t* to) {
                   upload(stream_, from, count, to);
                 });
  }

 private:
  explicit Resources(const DeviceLimits& limits)
      : workspace_(Workspace::counter()), solver_(nullptr), limits_(limits) {}

  void clear(void* counters, std::size_t bytes) {
    if (workspace_.counting()) return;
    require_success(cudaMemsetAsync(counters, 0, bytes, stream_), "cudaMemsetAsync");
  }

  cudaStream_t stream_ = nullptr;
  Workspace workspace_;
  Workspace host_workspace_;
  SolverHandle solver_;
  DeviceLimits limits_;
  DeviceArray<Counters> counters_;
};

}  // namespace kvevict::cuda

namespace kvevict {

/// An alias, so that argument-dependent lookup finds the backend's namespace.
using CudaResources = cuda::Resources;
/// The rows that an eviction on a device keeps.
using CudaSelection = cuda::Selection;

}  // namespace kvevict
