// SPDX-License-Identifier: Apache-2.0
// What nvcc's host code calls besides the runtime's public functions, and those of the public
// functions that concern kernels. They take the place of libcudart's.
#include "../emu/runtime.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "../emu/device.hpp"
#include "failure.hpp"
#include "grid.hpp"
#include "modules.hpp"
#include "statistics.hpp"

namespace {

using kvevict_emulation::report;
using kvevict_ptx::LoadedModule;
using kvevict_ptx::Program;
using kvevict_ptx::registry;

struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t dynamic_shared;
  cudaStream_t stream;
};

/// Configurations of <<<>>> on their way to the kernel's stub.
std::vector<LaunchConfiguration>& configurations() {
  static thread_local std::vector<LaunchConfiguration> pushed;
  return pushed;
}

std::shared_ptr<std::vector<std::byte>> copy_parameters(const Program& program, void** arguments) {
  auto bytes = std::make_shared<std::vector<std::byte>>(program.parameter_bytes);
  for (std::size_t k = 0; k < program.parameters.size(); ++k) {
    const kvevict_ptx::Parameter& parameter = program.parameters[k];
    std::memcpy(bytes->data() + parameter.offset, arguments[k], parameter.bytes);
  }
  return bytes;
}

cudaError_t launch(const void* kernel, const LaunchConfiguration& with, void** arguments) {
  const std::lock_guard lock(kvevict_emulation::device().mutex);
  const Program* program = registry().find_kernel(kernel);
  if (program == nullptr) return report(cudaErrorInvalidDeviceFunction);
  const cudaError_t error =
      kvevict_emulation::check_launch(kernel, with.grid, with.block, with.dynamic_shared);
  if (error != cudaSuccess) return error;
  const auto threads = static_cast<int>(with.block.x * with.block.y * with.block.z);
  const std::size_t shared = program->dynamic_shared_begin + with.dynamic_shared;
  if (threads > program->max_threads || shared > kvevict_emulation::shared_limit(kernel)) {
    return report(cudaErrorInvalidValue);
  }
  return kvevict_emulation::enqueue(
      with.stream, [program, with, bytes = copy_parameters(*program, arguments)] {
        kvevict_ptx::Grid grid(*program, with.grid, with.block, with.dynamic_shared, *bytes);
        kvevict_ptx::run_counted(grid);
      });
}

/// Blocks that meet each other need to run at the same time, which they do not here.
bool needs_concurrent_blocks(const cudaLaunchConfig_t& with) {
  const std::span attributes(with.attrs, with.numAttrs);
  return std::any_of(attributes.begin(), attributes.end(), [](const auto& attribute) {
    return attribute.id == cudaLaunchAttributeClusterDimension ||
           attribute.id == cudaLaunchAttributeCooperative;
  });
}

/// A part of a device variable; empty if there is no such part.
void* symbol_address(const void* symbol, std::size_t count, std::size_t offset) {
  const std::lock_guard lock(kvevict_emulation::device().mutex);
  const kvevict_ptx::Range range = registry().find_variable(symbol);
  if (offset > range.bytes || count > range.bytes - offset) return nullptr;
  return const_cast<std::byte*>(range.begin) + offset;
}

}  // namespace

extern "C" {

// What nvcc's host code declares for itself; no public header does.
void** __cudaRegisterFatBinary(void* wrapper);
void __cudaRegisterFatBinaryEnd(void** module);
void __cudaUnregisterFatBinary(void** module);
char __cudaInitModule(void** module);
void __cudaRegisterFunction(void** module, const char* host, char* device, const char* name,
                            int limit, uint3* thread, uint3* block, dim3* threads, dim3* blocks,
                            int* warp);
void __cudaRegisterVar(void** module, char* host, char* address, const char* name, int external,
                       size_t bytes, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream);

void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(registry().add_module(wrapper));
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  registry().add_kernel(host, reinterpret_cast<LoadedModule*>(module), name);
}

void __cudaRegisterVar(void** module, char* host, char*, const char* name, int, size_t, int, int) {
  registry().add_variable(host, reinterpret_cast<LoadedModule*>(module), name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  configurations().push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (configurations().empty()) return report(cudaErrorMissingConfiguration);
  const LaunchConfiguration top = configurations().back();
  configurations().pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.dynamic_shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

// A kernel's handle is the address of its stub.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  return launch(kernel, {grid, block, shared, stream}, arguments);
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  return launch(kernel, {grid, block, shared, stream}, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* with, const void* kernel,
                                void** arguments) {
  if (needs_concurrent_blocks(*with)) return report(cudaErrorNotSupported);
  return launch(kernel, {with->gridDim, with->blockDim, with->dynamicSmemBytes, with->stream},
                arguments);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  const std::lock_guard lock(kvevict_emulation::device().mutex);
  const Program* program = registry().find_kernel(kernel);
  if (program == nullptr) return report(cudaErrorInvalidDeviceFunction);
  const kvevict_emulation::DeviceLimits& limits = kvevict_emulation::settings().limits;
  const std::size_t limit = kvevict_emulation::shared_limit(kernel);
  *attributes = {};
  attributes->sharedSizeBytes = program->static_shared;
  attributes->localSizeBytes = program->local_bytes;
  attributes->maxThreadsPerBlock = program->max_threads;
  attributes->numRegs = 32;  // what a compiler for a device would choose is not known
  attributes->ptxVersion = attributes->binaryVersion =
      10 * limits.compute_major + limits.compute_minor;
  attributes->maxDynamicSharedSizeBytes =
      static_cast<int>(limit - std::min(limit, program->dynamic_shared_begin));
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                   size_t, unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 2;
  return cudaSuccess;
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  *address = symbol_address(symbol, 1, 0);
  return *address != nullptr ? cudaSuccess : report(cudaErrorInvalidSymbol);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t count,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  void* to = symbol_address(symbol, count, offset);
  return to != nullptr ? cudaMemcpyAsync(to, from, count, kind, stream)
                       : report(cudaErrorInvalidSymbol);
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t count, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  void* from = symbol_address(symbol, count, offset);
  return from != nullptr ? cudaMemcpyAsync(to, from, count, kind, stream)
                         : report(cudaErrorInvalidSymbol);
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t count, size_t offset,
                               cudaMemcpyKind kind) {
  void* to = symbol_address(symbol, count, offset);
  return to != nullptr ? cudaMemcpy(to, from, count, kind) : report(cudaErrorInvalidSymbol);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t count, size_t offset,
                                 cudaMemcpyKind kind) {
  void* from = symbol_address(symbol, count, offset);
  return from != nullptr ? cudaMemcpy(to, from, count, kind) : report(cudaErrorInvalidSymbol);
}

}  // extern "C"
