// SPDX-License-Identifier: Apache-2.0
// The fake CUDA runtime answers as the real one does.
#include <cuda_runtime_api.h>

#include <string>
#include <vector>

#include "catch.hpp"
#include "runtime.hpp"
#include "self_test_runtime.hpp"
#include "settings.hpp"

using emulator_test::add_to;
using emulator_test::Buffer;
using emulator_test::Event;
using emulator_test::Lazily;
using emulator_test::StreamHandle;
using kvevict_emulation::DeviceError;
using kvevict_emulation::settings;

TEST_CASE("memory: sizes, limits and who may free what") {
  void* memory = &memory;
  CHECK(cudaMalloc(&memory, 0) == cudaSuccess);
  CHECK(memory == nullptr);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaMalloc(&memory, settings().limits.global_memory + 1) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);

  std::size_t free_before = 0;
  std::size_t free_after = 0;
  std::size_t total = 0;
  REQUIRE(cudaMemGetInfo(&free_before, &total) == cudaSuccess);
  REQUIRE(cudaMalloc(&memory, 1000) == cudaSuccess);
  REQUIRE(cudaMemGetInfo(&free_after, &total) == cudaSuccess);
  CHECK(free_before - free_after == 1000);
  CHECK(cudaFreeHost(memory) == cudaErrorInvalidValue);
  CHECK(cudaFree(static_cast<char*>(memory) + 1) == cudaErrorInvalidValue);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidValue);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
}

TEST_CASE("memory begins undefined") {
  const Buffer buffer(4);
  for (const int value : buffer.read()) {
    CHECK(value == -1);
  }
}

TEST_CASE("pointers know their kind") {
  cudaPointerAttributes attributes;
  const Buffer device(4);
  REQUIRE(cudaPointerGetAttributes(&attributes, device.data() + 3) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 16) == cudaSuccess);
  REQUIRE(cudaPointerGetAttributes(&attributes, pinned) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  REQUIRE(cudaPointerGetAttributes(&attributes, &attributes) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
}

TEST_CASE("copies and fills are checked against their allocations") {
  const Buffer buffer(std::vector<int>{1, 2, 3, 4});
  int host[5] = {};
  CHECK(cudaMemcpy(host, buffer.data(), 20, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host, buffer.data() + 2, 12, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host, buffer.data(), 16, cudaMemcpyHostToHost) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(host, buffer.data() + 4, 0, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(cudaMemcpy(host, buffer.data(), 16, cudaMemcpyDefault) == cudaSuccess);
  CHECK(host[3] == 4);
  CHECK(cudaMemset(buffer.data() + 1, 0, 16) == cudaErrorInvalidValue);
  CHECK(cudaMemset(host, 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaMemset(buffer.data() + 1, 0, 8) == cudaSuccess);
  CHECK(buffer.read() == std::vector<int>{1, 0, 0, 4});
  cudaGetLastError();
}

TEST_CASE("pageable memory is read at the call, pinned memory when the copy runs") {
  const Lazily lazily;
  const StreamHandle stream(cudaStreamNonBlocking);
  const Buffer buffer(std::vector<int>{0, 0});
  int pageable = 5;
  int* pinned = nullptr;
  REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(int)) == cudaSuccess);
  *pinned = 5;
  CHECK(cudaMemcpyAsync(buffer.data(), &pageable, 4, cudaMemcpyHostToDevice, stream.get()) ==
        cudaSuccess);
  CHECK(cudaMemcpyAsync(buffer.data() + 1, pinned, 4, cudaMemcpyHostToDevice, stream.get()) ==
        cudaSuccess);
  pageable = *pinned = 6;
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(buffer.read() == std::vector<int>{5, 6});
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("memory that is freed in a stream's order lives until then") {
  const Lazily lazily;
  const StreamHandle stream(cudaStreamNonBlocking);
  void* memory = nullptr;
  REQUIRE(cudaMallocAsync(&memory, 64, stream.get()) == cudaSuccess);
  CHECK(cudaFreeAsync(memory, stream.get()) == cudaSuccess);
  CHECK(kvevict_emulation::is_device_range(memory, 64));
  CHECK(cudaFreeAsync(memory, stream.get()) == cudaSuccess);
  CHECK_THROWS_AS(cudaStreamSynchronize(stream.get()), DeviceError);
  CHECK_FALSE(kvevict_emulation::is_device_range(memory, 64));
  cudaGetLastError();
}

TEST_CASE("lazy streams: blocking streams and the default stream wait for each other") {
  const Lazily lazily;
  const Buffer buffer(std::vector<int>{0, 0});
  SECTION("the default stream waits") {
    const StreamHandle stream(cudaStreamDefault);
    add_to(buffer.data(), 1, stream.get());
    CHECK(buffer.read() == std::vector<int>{1, 0});
  }
  SECTION("the default stream does not wait for a stream that does not block") {
    const StreamHandle stream(cudaStreamNonBlocking);
    add_to(buffer.data(), 1, stream.get());
    CHECK(buffer.read() == std::vector<int>{0, 0});
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(buffer.read() == std::vector<int>{1, 0});
  }
  SECTION("a blocking stream waits") {
    const StreamHandle stream(cudaStreamDefault);
    const StreamHandle independent(cudaStreamNonBlocking);
    add_to(buffer.data(), 1, nullptr);
    add_to(buffer.data() + 1, 1, stream.get());
    CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    int host[2] = {};
    CHECK(cudaMemcpyAsync(host, buffer.data(), 8, cudaMemcpyDeviceToHost, independent.get()) ==
          cudaSuccess);
    CHECK(cudaStreamSynchronize(independent.get()) == cudaSuccess);
    CHECK(host[0] == 1);
    CHECK(host[1] == 1);
  }
  SECTION("both ways at once") {
    const StreamHandle stream(cudaStreamDefault);
    for (int i = 0; i < 3; ++i) {
      add_to(buffer.data(), 1, stream.get());
      add_to(buffer.data(), 1, nullptr);
    }
    CHECK(buffer.read() == std::vector<int>{6, 0});
  }
}

TEST_CASE("lazy streams: polling gets to an end") {
  const Lazily lazily;
  const StreamHandle stream(cudaStreamNonBlocking);
  const Buffer buffer(std::vector<int>{0});
  const Event event;
  CHECK(cudaEventQuery(event.get()) == cudaSuccess);
  add_to(buffer.data(), 1, stream.get());
  REQUIRE(cudaEventRecord(event.get(), stream.get()) == cudaSuccess);
  add_to(buffer.data(), 1, stream.get());
  CHECK(cudaEventQuery(event.get()) == cudaErrorNotReady);
  int polls = 0;
  while (cudaEventQuery(event.get()) == cudaErrorNotReady && polls < 100) {
    ++polls;
  }
  CHECK(cudaEventQuery(event.get()) == cudaSuccess);
  CHECK(buffer.read() == std::vector<int>{1});
  CHECK(cudaStreamQuery(stream.get()) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(stream.get()) == cudaSuccess);
  CHECK(buffer.read() == std::vector<int>{2});
}

TEST_CASE("events order streams and measure time") {
  const Lazily lazily;
  const StreamHandle first(cudaStreamNonBlocking);
  const StreamHandle second(cudaStreamNonBlocking);
  const Buffer buffer(std::vector<int>{0});
  const Event begin;
  const Event end;
  float milliseconds = -1.0f;
  REQUIRE(cudaEventRecord(begin.get(), first.get()) == cudaSuccess);
  add_to(buffer.data(), 1, first.get());
  REQUIRE(cudaEventRecord(end.get(), first.get()) == cudaSuccess);
  add_to(buffer.data(), 1, first.get());
  CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()) == cudaErrorNotReady);
  REQUIRE(cudaStreamWaitEvent(second.get(), end.get(), 0) == cudaSuccess);
  CHECK(cudaStreamSynchronize(second.get()) == cudaSuccess);
  CHECK(buffer.read() == std::vector<int>{1});
  CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()) == cudaSuccess);
  CHECK(milliseconds >= 0.0f);

  const Event untimed(cudaEventDisableTiming);
  REQUIRE(cudaEventRecord(untimed.get(), first.get()) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), untimed.get()) ==
        cudaErrorInvalidResourceHandle);
  CHECK(cudaEventSynchronize(untimed.get()) == cudaSuccess);
  CHECK(buffer.read() == std::vector<int>{2});
  cudaGetLastError();
}

TEST_CASE("a failure drops the work behind it") {
  const Lazily lazily;
  const StreamHandle stream(cudaStreamNonBlocking);
  const Buffer buffer(std::vector<int>{0});
  REQUIRE(kvevict_emulation::enqueue(stream.get(), [] { throw DeviceError("on purpose"); }) ==
          cudaSuccess);
  add_to(buffer.data(), 1, stream.get());
  CHECK_THROWS_WITH(cudaStreamSynchronize(stream.get()), "on purpose");
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(buffer.read() == std::vector<int>{0});
}

TEST_CASE("handles that are none") {
  cudaStream_t gone = nullptr;
  REQUIRE(cudaStreamCreate(&gone) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(gone) == cudaSuccess);
  CHECK(cudaStreamSynchronize(gone) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(gone) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(nullptr, nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
  CHECK(std::string(cudaGetErrorName(cudaErrorInvalidDevice)) == "cudaErrorInvalidDevice");
  CHECK(std::string(cudaGetErrorName(static_cast<cudaError_t>(12345))) ==
        "unrecognized error code");
  cudaGetLastError();
}

TEST_CASE("attributes follow the settings") {
  int value = 0;
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0) == cudaSuccess);
  CHECK(value == static_cast<int>(settings().limits.shared_per_block_optin));
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess);
  CHECK(value == 8);
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0) == cudaSuccess);
  CHECK(value == 32);
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1) == cudaErrorInvalidDevice);
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(std::string(properties.name) == settings().limits.name);
  CHECK(properties.multiProcessorCount == settings().limits.multiprocessors);
  CHECK(cudaGetDeviceProperties(&properties, 1) == cudaErrorInvalidDevice);
  cudaGetLastError();
}
