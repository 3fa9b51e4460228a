// SPDX-License-Identifier: Apache-2.0
#pragma once

// Owners of the fake runtime's objects for its tests.
#include <cuda_runtime_api.h>

#include "catch.hpp"
#include "runtime.hpp"
#include "self_test_support.hpp"
#include "settings.hpp"

namespace emulator_test {

using Buffer = DeviceArray<int>;

class StreamHandle {
 public:
  explicit StreamHandle(unsigned flags) {
    REQUIRE(cudaStreamCreateWithFlags(&stream_, flags) == cudaSuccess);
  }
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  ~StreamHandle() { cudaStreamDestroy(stream_); }

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) {
    REQUIRE(cudaEventCreateWithFlags(&event_, flags) == cudaSuccess);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }

  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Streams are lazy while it lives.
class Lazily {
 public:
  Lazily() { kvevict_emulation::settings().lazy_streams = true; }
  Lazily(const Lazily&) = delete;
  Lazily& operator=(const Lazily&) = delete;
  ~Lazily() { kvevict_emulation::settings().lazy_streams = before_; }

 private:
  bool before_ = kvevict_emulation::settings().lazy_streams;
};

/// Queues *place += amount, as a kernel would.
inline void add_to(int* place, int amount, cudaStream_t stream) {
  REQUIRE(kvevict_emulation::enqueue(stream, [=] { *place += amount; }) == cudaSuccess);
}

}  // namespace emulator_test
