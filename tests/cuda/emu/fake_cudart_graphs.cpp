// SPDX-License-Identifier: Apache-2.0
// Stream capture and graphs of the fake CUDA runtime.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "device.hpp"

using kvevict_emulation::Capture;
using kvevict_emulation::device;
using kvevict_emulation::report;
using kvevict_emulation::Stream;

namespace {

// Whether every captured node precedes what the origin would do next.
bool all_joined(const CUstream_st& origin) {
  const auto& nodes = origin.capture->graph.nodes;
  std::vector<bool> joined(nodes.size(), false);
  std::vector<std::size_t> open = origin.tail;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (!joined[node]) {
      joined[node] = true;
      open.insert(open.end(), nodes[node].after.begin(), nodes[node].after.end());
    }
  }
  return std::find(joined.begin(), joined.end(), false) == joined.end();
}

// Runs the nodes in an order that the dependencies allow: as captured, or with lazy streams always
// the latest that may run, so that a missing dependency shows.
void replay(const CUgraph_st& graph) {
  const auto& nodes = graph.nodes;
  const bool latest_first = kvevict_emulation::settings().lazy_streams;
  std::vector<bool> done(nodes.size(), false);
  const auto may_run = [&](std::size_t node) {
    return !done[node] && std::all_of(nodes[node].after.begin(), nodes[node].after.end(),
                                      [&](std::size_t before) { return done[before]; });
  };
  for (std::size_t count = 0; count < nodes.size(); ++count) {
    std::size_t next = latest_first ? nodes.size() - 1 : count;
    while (!may_run(next)) {
      --next;
    }
    nodes[next].work();
    done[next] = true;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(device().mutex);
  const Stream stream = device().find_stream(handle);
  if (!stream) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (stream == device().default_stream()) {
    return report(cudaErrorStreamCaptureUnsupported);
  }
  if (stream->capture) {
    return report(cudaErrorIllegalState);
  }
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream.get();
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->tail.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(device().mutex);
  const Stream stream = device().find_stream(handle);
  if (!stream || status == nullptr) {
    return report(cudaErrorInvalidValue);
  }
  if (stream == device().default_stream()) {
    if (const cudaError_t error = device().refuse_if_default_is_barred(); error != cudaSuccess) {
      return report(error);
    }
  }
  if (!stream->capture) {
    *status = cudaStreamCaptureStatusNone;
  } else {
    *status = stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                           : cudaStreamCaptureStatusActive;
  }
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const std::lock_guard lock(device().mutex);
  const Stream stream = device().find_stream(handle);
  if (!stream || graph == nullptr) {
    return report(cudaErrorInvalidValue);
  }
  *graph = nullptr;
  if (!stream->capture) {
    return report(cudaErrorIllegalState);
  }
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != stream.get()) {
    return report(cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return report(cudaErrorStreamCaptureWrongThread);
  }
  const bool joined = all_joined(*stream);
  device().end_capture(*capture);
  if (capture->invalidated) {
    return report(cudaErrorStreamCaptureInvalidated);
  }
  if (!joined) {
    return report(cudaErrorStreamCaptureUnjoined);
  }
  *graph = std::make_unique<CUgraph_st>(std::move(capture->graph)).release();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  if (executable == nullptr || graph == nullptr) {
    return report(cudaErrorInvalidValue);
  }
  *executable = std::make_unique<CUgraphExec_st>(CUgraphExec_st{*graph}).release();
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (executable == nullptr) {
    return report(cudaErrorInvalidValue);
  }
  // A copy, because the executable may be destroyed as soon as this returns.
  return kvevict_emulation::enqueue(
      stream, [graph = std::make_shared<const CUgraph_st>(executable->graph)] { replay(*graph); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::unique_ptr<CUgraph_st> owned(graph);
  return owned ? cudaSuccess : report(cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const std::unique_ptr<CUgraphExec_st> owned(executable);
  return owned ? cudaSuccess : report(cudaErrorInvalidValue);
}

}  // extern "C"
