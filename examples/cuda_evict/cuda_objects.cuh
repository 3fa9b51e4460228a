// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "kvevict/cuda.cuh"

namespace cuda_evict {

using kvevict::cuda::require_success;

/// A stream of its own: the default stream cannot be captured.
class Stream {
 public:
  Stream() {
    require_success(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                    "cudaStreamCreateWithFlags");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }

  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Points in time on a stream.
class Event {
 public:
  Event() { require_success(cudaEventCreate(&event_), "cudaEventCreate"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }

  void record(cudaStream_t stream) {
    require_success(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  /// Milliseconds of the device. Waits for this event.
  float since(const Event& start) const {
    require_success(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float milliseconds = 0.0f;
    require_success(cudaEventElapsedTime(&milliseconds, start.event_, event_),
                    "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Captured work of a stream, which one call replays. Takes over the graph.
class Replay {
 public:
  explicit Replay(cudaGraph_t graph) {
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    require_success(status, "cudaGraphInstantiate");
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  ~Replay() { cudaGraphExecDestroy(executable_); }

  void launch(cudaStream_t stream) const {
    require_success(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

/// An array in device memory, as an engine has them.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::int64_t size) : size_(size) {
    void* memory = nullptr;
    require_success(cudaMalloc(&memory, bytes()), "cudaMalloc");
    data_.reset(static_cast<T*>(memory));
  }

  T* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }
  std::size_t bytes() const { return static_cast<std::size_t>(size_) * sizeof(T); }

 private:
  struct Free {
    void operator()(T* memory) const { cudaFree(memory); }
  };
  std::int64_t size_;
  std::unique_ptr<T, Free> data_;
};

/// Appends `count` elements of device memory to a vector. Waits for the stream.
template <class T>
void download(cudaStream_t stream, const T* from, std::int64_t count, std::vector<T>& to) {
  const std::size_t size = to.size();
  to.resize(size + static_cast<std::size_t>(count));
  require_success(
      cudaMemcpyAsync(to.data() + size, from, static_cast<std::size_t>(count) * sizeof(T),
                      cudaMemcpyDeviceToHost, stream),
      "cudaMemcpyAsync");
  require_success(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace cuda_evict
