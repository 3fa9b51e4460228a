// SPDX-License-Identifier: Apache-2.0
// Stream capture: what is recorded, replayed and forbidden.
#include <cuda_runtime_api.h>

#include <vector>

#include "catch.hpp"
#include "self_test_runtime.hpp"

using emulator_test::add_to;
using emulator_test::Buffer;
using emulator_test::Event;
using emulator_test::Lazily;
using emulator_test::StreamHandle;

namespace {

cudaStreamCaptureStatus status_of(const StreamHandle& stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(stream.get(), &status) == cudaSuccess);
  return status;
}

void begin(const StreamHandle& stream,
           cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  REQUIRE(cudaStreamBeginCapture(stream.get(), mode) == cudaSuccess);
}

cudaGraph_t end(const StreamHandle& stream) {
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess);
  return graph;
}

/// A graph made executable.
class Executable {
 public:
  explicit Executable(cudaGraph_t graph) {
    REQUIRE(cudaGraphInstantiate(&executable_, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() { cudaGraphExecDestroy(executable_); }

  void launch(const StreamHandle& stream) const {
    REQUIRE(cudaGraphLaunch(executable_, stream.get()) == cudaSuccess);
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// The call is refused with this error, and the capture is lost.
void loses_capture(const StreamHandle& stream, cudaError_t got, cudaError_t expected) {
  CHECK(got == expected);
  CHECK(status_of(stream) == cudaStreamCaptureStatusInvalidated);
  CHECK(kvevict_emulation::enqueue(stream.get(), [] {}) == cudaErrorStreamCaptureInvalidated);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  cudaGetLastError();
}

}  // namespace

TEST_CASE("captured work runs at each replay and not before") {
  const StreamHandle stream(cudaStreamNonBlocking);
  const Buffer buffer(std::vector<int>{0, 0});
  begin(stream);
  CHECK(status_of(stream) == cudaStreamCaptureStatusActive);
  add_to(buffer.data(), 1, stream.get());
  CHECK(cudaMemcpyAsync(buffer.data() + 1, buffer.data(), 4, cudaMemcpyDeviceToDevice,
                        stream.get()) == cudaSuccess);
  const Executable graph(end(stream));
  CHECK(buffer.read() == std::vector<int>{0, 0});
  graph.launch(stream);
  graph.launch(stream);
  CHECK(buffer.read() == std::vector<int>{2, 2});
}

TEST_CASE("lazy streams: a replay waits for its stream") {
  const Lazily lazily;
  const StreamHandle stream(cudaStreamNonBlocking);
  const Buffer buffer(std::vector<int>{0});
  begin(stream);
  add_to(buffer.data(), 1, stream.get());
  {
    const Executable graph(end(stream));
    graph.launch(stream);
  }
  CHECK(buffer.read() == std::vector<int>{0});
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(buffer.read() == std::vector<int>{1});
}

TEST_CASE("calls that a capture does not survive") {
  const StreamHandle stream(cudaStreamNonBlocking);
  const Buffer buffer(std::vector<int>{0});
  void* memory = nullptr;
  int host = 0;
  begin(stream);
  SECTION("waiting for the stream") {
    loses_capture(stream, cudaStreamSynchronize(stream.get()), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("asking the stream") {
    loses_capture(stream, cudaStreamQuery(stream.get()), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("waiting for the device") {
    loses_capture(stream, cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("allocating") {
    loses_capture(stream, cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("allocating pinned memory") {
    loses_capture(stream, cudaMallocHost(&memory, 4), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("freeing") {
    loses_capture(stream, cudaFree(buffer.data()), cudaErrorStreamCaptureUnsupported);
  }
  SECTION("copying from pageable memory") {
    loses_capture(stream,
                  cudaMemcpyAsync(buffer.data(), &host, 4, cudaMemcpyHostToDevice, stream.get()),
                  cudaErrorStreamCaptureUnsupported);
  }
  SECTION("copying to pageable memory") {
    loses_capture(stream,
                  cudaMemcpyAsync(&host, buffer.data(), 4, cudaMemcpyDeviceToHost, stream.get()),
                  cudaErrorStreamCaptureUnsupported);
  }
  SECTION("waiting for an event of the capture") {
    const Event event;
    REQUIRE(cudaEventRecord(event.get(), stream.get()) == cudaSuccess);
    loses_capture(stream, cudaEventSynchronize(event.get()), cudaErrorCapturedEvent);
  }
  SECTION("depending on work before the capture") {
    const StreamHandle other(cudaStreamNonBlocking);
    const Event event;
    REQUIRE(cudaEventRecord(event.get(), other.get()) == cudaSuccess);
    loses_capture(stream, cudaStreamWaitEvent(stream.get(), event.get(), 0),
                  cudaErrorStreamCaptureIsolation);
  }
}

TEST_CASE("the default stream and a blocking stream's capture") {
  const StreamHandle stream(cudaStreamDefault);
  const Buffer buffer(std::vector<int>{0});
  begin(stream);
  loses_capture(stream, cudaMemset(buffer.data(), 0, 4), cudaErrorStreamCaptureImplicit);
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) ==
        cudaErrorStreamCaptureUnsupported);
  cudaGetLastError();
}

TEST_CASE("a relaxed capture allows allocations") {
  const StreamHandle stream(cudaStreamNonBlocking);
  begin(stream, cudaStreamCaptureModeRelaxed);
  { const Buffer buffer(std::size_t{1}); }
  REQUIRE(cudaGraphDestroy(end(stream)) == cudaSuccess);
}

TEST_CASE("captures begin once and end where they began") {
  const StreamHandle stream(cudaStreamNonBlocking);
  const StreamHandle other(cudaStreamNonBlocking);
  const Event event;
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaErrorIllegalState);
  begin(stream);
  CHECK(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal) == cudaErrorIllegalState);
  REQUIRE(cudaEventRecord(event.get(), stream.get()) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other.get(), event.get(), 0) == cudaSuccess);
  CHECK(status_of(other) == cudaStreamCaptureStatusActive);
  CHECK(cudaStreamEndCapture(other.get(), &graph) == cudaErrorStreamCaptureUnmatched);
  REQUIRE(cudaGraphDestroy(end(stream)) == cudaSuccess);
  CHECK(status_of(other) == cudaStreamCaptureStatusNone);
  CHECK(cudaStreamWaitEvent(other.get(), event.get(), 0) == cudaErrorCapturedEvent);
  cudaGetLastError();
}

TEST_CASE("captures of two streams: joined, not joined and ordered only by events") {
  const StreamHandle stream(cudaStreamNonBlocking);
  const StreamHandle other(cudaStreamNonBlocking);
  const Event fork;
  const Event join;
  const Buffer buffer(std::vector<int>{1, 0, 0});
  begin(stream);
  REQUIRE(cudaEventRecord(fork.get(), stream.get()) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other.get(), fork.get(), 0) == cudaSuccess);
  // The other stream writes what the first one then copies.
  REQUIRE(cudaMemcpyAsync(buffer.data() + 1, buffer.data(), 4, cudaMemcpyDeviceToDevice,
                          other.get()) == cudaSuccess);
  REQUIRE(cudaEventRecord(join.get(), other.get()) == cudaSuccess);
  const auto copy_on = [&] {
    REQUIRE(cudaMemcpyAsync(buffer.data() + 2, buffer.data() + 1, 4, cudaMemcpyDeviceToDevice,
                            stream.get()) == cudaSuccess);
  };
  SECTION("not joined") {
    copy_on();
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream.get(), &graph) == cudaErrorStreamCaptureUnjoined);
    CHECK(status_of(other) == cudaStreamCaptureStatusNone);
    cudaGetLastError();
  }
  SECTION("joined before the copy") {
    REQUIRE(cudaStreamWaitEvent(stream.get(), join.get(), 0) == cudaSuccess);
    copy_on();
    const Lazily lazily;
    const Executable graph(end(stream));
    graph.launch(stream);
    CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    CHECK(buffer.read() == std::vector<int>{1, 1, 1});
  }
  SECTION("joined after the copy, which lazy streams then run first") {
    copy_on();
    REQUIRE(cudaStreamWaitEvent(stream.get(), join.get(), 0) == cudaSuccess);
    const Lazily lazily;
    const Executable graph(end(stream));
    graph.launch(stream);
    CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    CHECK(buffer.read() == std::vector<int>{1, 1, 0});
  }
}
