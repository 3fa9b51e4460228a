// SPDX-License-Identifier: Apache-2.0
#pragma once

// The fake device: its memory, streams and captures. Everything here is guarded by one lock, which
// every function of the fake libraries takes: the device does one thing at a time.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "runtime.hpp"
#include "settings.hpp"

/// A node of a graph may run when all nodes of `after` have run.
struct CUgraph_st {
  struct Node {
    std::function<void()> work;
    std::vector<std::size_t> after;
  };
  std::vector<Node> nodes;
};

struct CUgraphExec_st {
  CUgraph_st graph;
};

namespace kvevict_emulation {

/// A capture in progress, shared by the streams that take part in it.
struct Capture {
  CUgraph_st graph;
  CUstream_st* origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool invalidated = false;
  bool ended = false;
};

}  // namespace kvevict_emulation

struct CUstream_st {
  bool blocking = true;  // waits for the legacy default stream and the other way round
  std::deque<std::function<void()>> queue;
  std::uint64_t queued = 0;
  std::uint64_t done = 0;
  bool running = false;
  std::shared_ptr<kvevict_emulation::Capture> capture;
  std::vector<std::size_t> tail;  // the captured nodes that the next one comes after
};

namespace kvevict_emulation {

using Stream = std::shared_ptr<CUstream_st>;

struct Allocation {
  std::size_t bytes;
  bool pinned;
};

/// Memory that cudaMalloc and cudaMallocHost have handed out, by address.
class DeviceMemory {
 public:
  struct Place {
    char* base;
    std::size_t bytes;
    bool pinned;
  };

  /// The allocation that `address` points into; base is null if there is none.
  Place find(const void* address) const;
  cudaError_t allocate(void** address, std::size_t bytes, bool pinned);
  cudaError_t release(void* address, bool pinned);
  std::size_t used() const { return used_; }
  /// Allocations so far.
  std::uint64_t allocated() const { return allocated_; }

  /// While device work runs, and only then, device memory may be touched.
  void open();
  void close();

 private:
  std::map<char*, Allocation> allocations_;
  std::size_t used_ = 0;
  std::uint64_t allocated_ = 0;
  int open_ = 0;
  // Released memory waits here before it is used again, so that touching it is noticed.
  std::deque<std::pair<char*, std::size_t>> released_;
  std::size_t released_bytes_ = 0;
};

class Device {
 public:
  std::recursive_mutex mutex;
  DeviceMemory memory;
  std::map<const void*, std::size_t> shared_optin;  // of kernels

  Stream create_stream(bool blocking);
  void destroy_stream(const Stream& stream);
  /// Null for a handle that is not one, or not any more.
  Stream find_stream(cudaStream_t handle) const;
  const Stream& default_stream() const { return default_stream_; }

  /// Work that is not captured, see enqueue.
  void submit(const Stream& stream, std::function<void()> work);
  /// Runs the stream's work up to the given number of queued items.
  void drain(const Stream& stream, std::uint64_t until = ~std::uint64_t{0});
  void drain_all();
  /// Runs one item. Returns whether there was any.
  bool step(const Stream& stream);

  /// Appends a node to the graph that the stream captures.
  static void capture(CUstream_st& stream, std::function<void()> work);
  /// Takes every stream out of the capture.
  void end_capture(Capture& capture);
  /// The answer to a call that no capture allows: success if nothing forbids it; otherwise an
  /// error, and the captures that it disturbs are lost.
  cudaError_t refuse_if_capturing();
  /// The same for a call that uses the legacy default stream.
  cudaError_t refuse_if_default_is_barred();

 private:
  void run(const std::function<void()>& work);
  void drop_all_work();

  Stream default_stream_ = std::make_shared<CUstream_st>();
  std::set<Stream> streams_;
};

/// The one device of the process.
Device& device();

/// Remembers an error for cudaGetLastError and returns it.
cudaError_t report(cudaError_t error);

}  // namespace kvevict_emulation
