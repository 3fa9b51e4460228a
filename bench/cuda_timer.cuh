// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kvevict/cuda/resources.cuh"

namespace bench {

/// A stream that can be captured, as the default stream cannot.
class CudaStream {
 public:
  CudaStream() {
    kvevict::cuda::require_success(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                                   "cudaStreamCreateWithFlags");
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() { cudaStreamDestroy(stream_); }

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Work that `body` enqueues, captured once and replayed by one call. The same work must have been
/// enqueued before, so that nothing is left to allocate.
class CudaReplay {
 public:
  template <class Body>
  CudaReplay(cudaStream_t stream, Body&& body) : stream_(stream) {
    using kvevict::cuda::require_success;
    cudaGraph_t graph = nullptr;
    require_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                    "cudaStreamBeginCapture");
    body();
    require_success(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    require_success(status, "cudaGraphInstantiate");
  }
  CudaReplay(const CudaReplay&) = delete;
  CudaReplay& operator=(const CudaReplay&) = delete;
  ~CudaReplay() { cudaGraphExecDestroy(executable_); }

  void operator()() const {
    kvevict::cuda::require_success(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch");
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

/// Times on a device between two events of the resources' stream.
class CudaTimer {
 public:
  explicit CudaTimer(kvevict::CudaResources& res) : res_(res) {
    kvevict::cuda::require_success(cudaEventCreate(&start_), "cudaEventCreate");
    kvevict::cuda::require_success(cudaEventCreate(&end_), "cudaEventCreate");
  }
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;
  ~CudaTimer() {
    cudaEventDestroy(end_);
    cudaEventDestroy(start_);
  }

  /// Seconds of one of `calls` calls of `body`, which are enqueued one behind the other. Waits.
  template <class Body>
  double seconds(int calls, Body&& body) {
    using kvevict::cuda::require_success;
    require_success(cudaEventRecord(start_, res_.stream()), "cudaEventRecord");
    for (int i = 0; i < calls; ++i) body();
    require_success(cudaEventRecord(end_, res_.stream()), "cudaEventRecord");
    require_success(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0.0f;
    require_success(cudaEventElapsedTime(&milliseconds, start_, end_), "cudaEventElapsedTime");
    // Events resolve half a microsecond; nothing takes no time.
    return std::max(1e-3 * static_cast<double>(milliseconds), 1e-7) / calls;
  }

  /// Calls that a measurement should put between its events, so that it takes two milliseconds and
  /// the events do not matter. The first calls load kernels and grow the workspace; a few more
  /// bring the clocks up.
  template <class Body>
  int warm_up(Body&& body) {
    body();
    const double once = seconds(1, body);
    return static_cast<int>(std::clamp(std::ceil(2e-3 / once), 1.0, 200.0));
  }

  /// The median of five measurements.
  template <class Body>
  double median_seconds(Body&& body) {
    const int calls = warm_up(body);
    std::vector<double> all(5);
    for (double& each : all) each = seconds(calls, body);
    std::nth_element(all.begin(), all.begin() + 2, all.end());
    return all[2];
  }

 private:
  kvevict::CudaResources& res_;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace bench
