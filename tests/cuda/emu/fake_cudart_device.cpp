// SPDX-License-Identifier: Apache-2.0
// Devices, attributes, kernels' attributes and errors of the fake CUDA runtime.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "device.hpp"

namespace kvevict_emulation {
namespace {

constinit thread_local cudaError_t last_error = cudaSuccess;

constexpr unsigned most_threads = 1024;
constexpr unsigned most_threads_z = 64;
constexpr unsigned most_blocks_x = 0x7fffffff;
constexpr unsigned most_blocks_yz = 65535;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* description;
};

constexpr ErrorText error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorText* find_text(cudaError_t error) {
  const auto* found = std::find_if(std::begin(error_texts), std::end(error_texts),
                                   [error](const ErrorText& text) { return text.error == error; });
  return found == std::end(error_texts) ? nullptr : found;
}

}  // namespace

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) {
    last_error = error;
  }
  return error;
}

std::size_t shared_limit(const void* kernel) {
  const std::lock_guard lock(device().mutex);
  const auto found = device().shared_optin.find(kernel);
  const std::size_t optin = found == device().shared_optin.end() ? 0 : found->second;
  return std::max(settings().limits.shared_per_block, optin);
}

cudaError_t check_launch(const void* kernel, dim3 grid, dim3 block, std::size_t dynamic_shared) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const bool has_blocks = grid.x != 0 && grid.y != 0 && grid.z != 0;
  const bool grid_fits =
      grid.x <= most_blocks_x && grid.y <= most_blocks_yz && grid.z <= most_blocks_yz;
  const bool block_fits = threads != 0 && threads <= most_threads && block.x <= most_threads &&
                          block.y <= most_threads && block.z <= most_threads_z;
  if (!has_blocks || !grid_fits || !block_fits) {
    return report(cudaErrorInvalidConfiguration);
  }
  if (dynamic_shared > shared_limit(kernel)) {
    return report(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

}  // namespace kvevict_emulation

using kvevict_emulation::device;
using kvevict_emulation::report;
using kvevict_emulation::settings;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* index) {
  *index = 0;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int index) {
  return index == 0 ? cudaSuccess : report(cudaErrorInvalidDevice);
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  if (index != 0) {
    return report(cudaErrorInvalidDevice);
  }
  const kvevict_emulation::DeviceLimits& limits = settings().limits;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s", limits.name);
  properties->major = limits.compute_major;
  properties->minor = limits.compute_minor;
  properties->multiProcessorCount = limits.multiprocessors;
  properties->totalGlobalMem = limits.global_memory;
  properties->sharedMemPerBlock = limits.shared_per_block;
  properties->sharedMemPerBlockOptin = limits.shared_per_block_optin;
  properties->maxThreadsPerBlock = kvevict_emulation::most_threads;
  properties->warpSize = 32;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  if (index != 0) {
    return report(cudaErrorInvalidDevice);
  }
  const kvevict_emulation::DeviceLimits& limits = settings().limits;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = limits.compute_major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = limits.compute_minor;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = limits.multiprocessors;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(limits.shared_per_block);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(limits.shared_per_block_optin);
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      *value = kvevict_emulation::most_threads;
      return cudaSuccess;
    case cudaDevAttrMaxBlockDimZ:
      *value = kvevict_emulation::most_threads_z;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2 * kvevict_emulation::most_threads;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimX:
      *value = kvevict_emulation::most_blocks_x;
      return cudaSuccess;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *value = kvevict_emulation::most_blocks_yz;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      return cudaSuccess;
    default:
      return report(cudaErrorInvalidValue);
  }
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const std::lock_guard lock(device().mutex);
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
    return cudaSuccess;  // a hint
  }
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<std::size_t>(value) > settings().limits.shared_per_block_optin) {
    return report(cudaErrorInvalidValue);
  }
  device().shared_optin[kernel] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(kvevict_emulation::last_error, cudaSuccess); }

cudaError_t cudaPeekAtLastError() { return kvevict_emulation::last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  const auto* text = kvevict_emulation::find_text(error);
  return text != nullptr ? text->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* text = kvevict_emulation::find_text(error);
  return text != nullptr ? text->description : "unrecognized error code";
}

}  // extern "C"
