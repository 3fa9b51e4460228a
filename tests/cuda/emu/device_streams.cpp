// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "device.hpp"

namespace kvevict_emulation {

Device& device() {
  // Never destroyed: objects with static lifetime may free their memory after any other destructor.
  static Device& instance = *new Device;
  return instance;
}

Stream Device::create_stream(bool blocking) {
  const Stream stream = std::make_shared<CUstream_st>();
  stream->blocking = blocking;
  streams_.insert(stream);
  return stream;
}

void Device::destroy_stream(const Stream& stream) {
  if (stream->capture) {
    stream->capture->invalidated = true;
  }
  drain(stream);
  streams_.erase(stream);
}

Stream Device::find_stream(cudaStream_t handle) const {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    return default_stream_;
  }
  for (const Stream& stream : streams_) {
    if (stream.get() == handle) {
      return stream;
    }
  }
  return nullptr;
}

void Device::submit(const Stream& stream, std::function<void()> work) {
  if (!settings().lazy_streams) {
    drain_all();
    run(work);
    return;
  }
  // The legacy default stream waits for every blocking stream, and they for it.
  const auto wait_for = [&](const Stream& other) {
    stream->queue.push_back([this, other, until = other->queued] { drain(other, until); });
    ++stream->queued;
  };
  if (stream == default_stream_) {
    for (const Stream& other : streams_) {
      if (other->blocking) {
        wait_for(other);
      }
    }
  } else if (stream->blocking) {
    wait_for(default_stream_);
  }
  stream->queue.push_back(std::move(work));
  ++stream->queued;
}

bool Device::step(const Stream& stream) {
  if (stream->queue.empty()) {
    return false;
  }
  if (stream->running) {
    throw DeviceError("streams wait for each other in a circle");
  }
  const std::function<void()> work = std::move(stream->queue.front());
  stream->queue.pop_front();
  struct Running {
    explicit Running(CUstream_st& of) : stream(of) { stream.running = true; }
    ~Running() {
      stream.running = false;
      ++stream.done;
    }
    CUstream_st& stream;
  } const running(*stream);
  run(work);
  return true;
}

void Device::drain(const Stream& stream, std::uint64_t until) {
  while (stream->done < until && step(stream)) {
  }
}

void Device::drain_all() {
  drain(default_stream_);
  // A copy, because work may end the life of a stream.
  const std::set<Stream> streams = streams_;
  for (const Stream& stream : streams) {
    drain(stream);
  }
}

void Device::run(const std::function<void()>& work) {
  struct Open {
    explicit Open(DeviceMemory& of) : opened(of) { opened.open(); }
    ~Open() { opened.close(); }
    DeviceMemory& opened;
  } const open(memory);
  try {
    work();
  } catch (...) {
    // A failed kernel takes its context with it. What was queued behind it would only hide the
    // cause.
    drop_all_work();
    report(cudaErrorLaunchFailure);
    throw;
  }
}

void Device::drop_all_work() {
  default_stream_->done += default_stream_->queue.size();
  default_stream_->queue.clear();
  for (const Stream& stream : streams_) {
    stream->done += stream->queue.size();
    stream->queue.clear();
  }
}

cudaError_t enqueue(cudaStream_t handle, std::function<void()> work) {
  Device& the_device = device();
  const std::lock_guard lock(the_device.mutex);
  const Stream stream = the_device.find_stream(handle);
  if (!stream) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (stream->capture) {
    if (stream->capture->invalidated) {
      return report(cudaErrorStreamCaptureInvalidated);
    }
    Device::capture(*stream, std::move(work));
    return cudaSuccess;
  }
  if (stream == the_device.default_stream()) {
    if (const cudaError_t error = the_device.refuse_if_default_is_barred(); error != cudaSuccess) {
      return report(error);
    }
  }
  the_device.submit(stream, std::move(work));
  return cudaSuccess;
}

void Device::capture(CUstream_st& stream, std::function<void()> work) {
  auto& nodes = stream.capture->graph.nodes;
  nodes.push_back({std::move(work), stream.tail});
  stream.tail = {nodes.size() - 1};
}

void Device::end_capture(Capture& capture) {
  capture.ended = true;
  for (const Stream& stream : streams_) {
    if (stream->capture.get() == &capture) {
      stream->capture = nullptr;
      stream->tail.clear();
    }
  }
}

cudaError_t Device::refuse_if_capturing() {
  bool refused = false;
  for (const Stream& stream : streams_) {
    const Capture* capture = stream->capture.get();
    if (capture == nullptr || capture->mode == cudaStreamCaptureModeRelaxed) {
      continue;
    }
    const bool concerns_this_thread = capture->mode == cudaStreamCaptureModeGlobal ||
                                      capture->thread == std::this_thread::get_id();
    if (concerns_this_thread) {
      stream->capture->invalidated = true;
      refused = true;
    }
  }
  return refused ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t Device::refuse_if_default_is_barred() {
  bool refused = false;
  for (const Stream& stream : streams_) {
    if (stream->capture && stream->blocking) {
      stream->capture->invalidated = true;
      refused = true;
    }
  }
  return refused ? cudaErrorStreamCaptureImplicit : cudaSuccess;
}

}  // namespace kvevict_emulation
