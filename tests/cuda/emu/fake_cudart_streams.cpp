// SPDX-License-Identifier: Apache-2.0
// Streams and events of the fake CUDA runtime.
#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "device.hpp"

namespace {

using Clock = std::chrono::steady_clock;

/// One recording of an event, which the event's next recording replaces.
struct Recording {
  bool reached = false;
  Clock::time_point time;
};

}  // namespace

struct CUevent_st {
  bool timed = true;
  std::shared_ptr<Recording> recording;
  kvevict_emulation::Stream stream;
  std::uint64_t until = 0;  // the stream's work up to the recording
  std::shared_ptr<kvevict_emulation::Capture> capture;
  std::vector<std::size_t> nodes;  // captured before the recording
};

namespace {

using kvevict_emulation::Device;
using kvevict_emulation::device;
using kvevict_emulation::report;
using kvevict_emulation::Stream;

// A stream that may be waited for or asked now.
cudaError_t find_idle_stream(cudaStream_t handle, Stream& stream) {
  stream = device().find_stream(handle);
  if (!stream) {
    return cudaErrorInvalidResourceHandle;
  }
  if (stream->capture) {
    stream->capture->invalidated = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (stream == device().default_stream()) {
    return device().refuse_if_default_is_barred();
  }
  return cudaSuccess;
}

cudaError_t create_stream(cudaStream_t* handle, bool blocking) {
  const std::lock_guard lock(device().mutex);
  if (handle == nullptr) {
    return report(cudaErrorInvalidValue);
  }
  *handle = device().create_stream(blocking).get();
  return cudaSuccess;
}

cudaError_t create_event(cudaEvent_t* handle, bool timed) {
  if (handle == nullptr) {
    return report(cudaErrorInvalidValue);
  }
  auto event = std::make_unique<CUevent_st>();
  event->timed = timed;
  *handle = event.release();
  return cudaSuccess;
}

void join(std::vector<std::size_t>& nodes, const std::vector<std::size_t>& more) {
  for (const std::size_t node : more) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) {
      nodes.push_back(node);
    }
  }
}

// A wait for an event of a capture draws the waiting stream into it.
cudaError_t wait_for_captured(const Stream& stream, const CUevent_st& event) {
  if (event.capture->ended) {
    return cudaErrorCapturedEvent;
  }
  if (stream == device().default_stream()) {
    event.capture->invalidated = true;
    return cudaErrorStreamCaptureImplicit;
  }
  if (stream->capture && stream->capture != event.capture) {
    stream->capture->invalidated = event.capture->invalidated = true;
    return cudaErrorStreamCaptureMerge;
  }
  stream->capture = event.capture;
  join(stream->tail, event.nodes);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create_stream(stream, true); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create_stream(stream, (flags & cudaStreamNonBlocking) == 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const std::lock_guard lock(device().mutex);
  const Stream stream = device().find_stream(handle);
  if (!stream || stream == device().default_stream()) {
    return report(cudaErrorInvalidResourceHandle);
  }
  device().destroy_stream(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const std::lock_guard lock(device().mutex);
  Stream stream;
  if (const cudaError_t error = find_idle_stream(handle, stream); error != cudaSuccess) {
    return report(error);
  }
  device().drain(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const std::lock_guard lock(device().mutex);
  Stream stream;
  if (const cudaError_t error = find_idle_stream(handle, stream); error != cudaSuccess) {
    return report(error);
  }
  // One item at a time, so that polling gets to an end.
  return device().step(stream) ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(device().mutex);
  if (const cudaError_t error = device().refuse_if_capturing(); error != cudaSuccess) {
    return report(error);
  }
  device().drain_all();
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return create_event(event, true); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return create_event(event, (flags & cudaEventDisableTiming) == 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(device().mutex);
  const std::unique_ptr<CUevent_st> owned(event);
  return owned ? cudaSuccess : report(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const std::lock_guard lock(device().mutex);
  const Stream stream = device().find_stream(handle);
  if (event == nullptr || !stream) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (stream->capture) {
    if (stream->capture->invalidated) {
      return report(cudaErrorStreamCaptureInvalidated);
    }
    event->capture = stream->capture;
    event->nodes = stream->tail;
    return cudaSuccess;
  }
  const auto recording = std::make_shared<Recording>();
  const cudaError_t error = kvevict_emulation::enqueue(handle, [recording] {
    recording->reached = true;
    recording->time = Clock::now();
  });
  if (error == cudaSuccess) {
    event->capture = nullptr;
    event->recording = recording;
    event->stream = stream;
    event->until = stream->queued;
  }
  return error;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(device().mutex);
  if (event == nullptr) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (event->capture) {
    event->capture->invalidated = true;
    return report(cudaErrorCapturedEvent);
  }
  if (event->recording) {
    device().drain(event->stream, event->until);
  }
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(device().mutex);
  if (event == nullptr) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (event->capture) {
    event->capture->invalidated = true;
    return report(cudaErrorCapturedEvent);
  }
  if (!event->recording || event->recording->reached) {
    return cudaSuccess;
  }
  device().step(event->stream);
  return cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const std::lock_guard lock(device().mutex);
  if (start == nullptr || end == nullptr || !start->timed || !end->timed || !start->recording ||
      !end->recording) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (!start->recording->reached || !end->recording->reached) {
    return report(cudaErrorNotReady);
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->recording->time - start->recording->time)
          .count();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(device().mutex);
  const Stream stream = device().find_stream(handle);
  if (event == nullptr || !stream) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (event->capture) {
    return report(wait_for_captured(stream, *event));
  }
  if (!event->recording) {
    return cudaSuccess;
  }
  if (stream->capture) {
    stream->capture->invalidated = true;
    return report(cudaErrorStreamCaptureIsolation);
  }
  if (event->stream == stream) {
    return cudaSuccess;  // a stream is in order anyway
  }
  return kvevict_emulation::enqueue(
      handle, [other = event->stream, until = event->until] { device().drain(other, until); });
}

}  // extern "C"
