// SPDX-License-Identifier: Apache-2.0
// Ends the process with exit code 77, skipped, where there is no CUDA device. Before main, which
// belongs to Catch2.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace {

const bool device_found = [] {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return true;
  std::printf("SKIPPED: no CUDA device (%s)\n", cudaGetErrorName(status));
  std::fflush(stdout);
  std::_Exit(77);
}();

}  // namespace
