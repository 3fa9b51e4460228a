// SPDX-License-Identifier: Apache-2.0
// Functions that are not inlined, switches, and every way to launch a kernel.
#include <numeric>

#include "self_test_operations.cuh"

namespace ptx_test {
namespace {

struct Pair {
  double sum;
  int count;
};
__host__ __device__ __noinline__ Pair add_up(const int* values, int count, Pair start) {
  for (int i = 0; i < count; ++i) start.sum += values[i];
  start.count += count;
  return start;
}
__host__ __device__ __noinline__ double average(const int* values, int count) {
  const Pair first = add_up(values, count / 2, {0, 0});
  const Pair all = add_up(values + count / 2, count - count / 2, first);
  return all.sum / all.count;
}
__global__ void call_functions(const int* values, double* out) {
  const int t = static_cast<int>(threadIdx.x);
  // Lanes call from two places, and some not at all.
  double result = -1;
  if (t % 3 == 0) {
    result = average(values, t + 1);
  } else if (t % 3 == 1) {
    result = average(values + t, 4) + average(values, 2);
  }
  out[t] = result;
}

__host__ __device__ inline int choose(int kind, int x) {
  switch (kind) {
    case 0:
      return x + 1;
    case 1:
      return x * x;
    case 2:
      return x ^ 0x55;
    case 3:
      return -x;
    case 4:
      return x << 3;
    case 5:
      return x / 3;
    case 6:
      return x % 5;
    case 7:
      return 77;
    default:
      return 0;
  }
}
__global__ void use_switch(const int* kinds, int* out) {
  const int t = static_cast<int>(threadIdx.x);
  out[t] = choose(kinds[t], t);
}
__global__ void indexed_branch(const unsigned* kinds, int* out) {
  int result = 0;
  asm volatile(
      "{\n"
      "targets: .branchtargets first, second, third;\n"
      "brx.idx %1, targets;\n"
      "first: mov.u32 %0, 10; bra done;\n"
      "second: mov.u32 %0, 20; bra done;\n"
      "third: mov.u32 %0, 30;\n"
      "done:\n"
      "}"
      : "=r"(result)
      : "r"(kinds[threadIdx.x]));
  out[threadIdx.x] = result;
}

__global__ void fill(int* out, int value, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = value + i;
}

void check_launches(Report& report) {
  constexpr int count = 100;
  const DeviceArray<int> out(count);
  std::vector<int> expected(count);
  const auto holds = [&](int value) {
    std::iota(expected.begin(), expected.end(), value);
    return out.read() == expected;
  };
  fill<<<4, 32>>>(out.data(), 5, count);
  report.expect(holds(5), "<<<>>>");

  int* data = out.data();
  int value = 6;
  int limit = count;
  void* arguments[] = {&data, &value, &limit};
  require(cudaLaunchKernel(reinterpret_cast<const void*>(&fill), dim3(2), dim3(64), arguments, 0,
                           nullptr));
  report.expect(holds(6), "cudaLaunchKernel");

  cudaStream_t stream = nullptr;
  require(cudaStreamCreate(&stream));
  cudaLaunchConfig_t with{};
  with.gridDim = dim3(1);
  with.blockDim = dim3(128);
  with.stream = stream;
  require(cudaLaunchKernelEx(&with, fill, data, 7, count));
  require(cudaStreamSynchronize(stream));
  report.expect(holds(7), "cudaLaunchKernelEx");

  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  fill<<<4, 32, 0, stream>>>(data, 8, count);
  cudaGraph_t graph = nullptr;
  require(cudaStreamEndCapture(stream, &graph));
  report.expect(holds(7), "a capture runs nothing");
  cudaGraphExec_t ready = nullptr;
  require(cudaGraphInstantiate(&ready, graph, 0));
  require(cudaGraphLaunch(ready, stream));
  require(cudaStreamSynchronize(stream));
  report.expect(holds(8), "graph");
  require(cudaGraphExecDestroy(ready));
  require(cudaGraphDestroy(graph));
  require(cudaStreamDestroy(stream));

  fill<<<1, 1025>>>(data, 9, count);
  report.expect(cudaGetLastError() == cudaErrorInvalidConfiguration, "1025 threads");
  fill<<<1, 32, 60000>>>(data, 9, count);
  report.expect(cudaGetLastError() == cudaErrorInvalidValue, "more than 48 KiB without asking");
  require(cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
  fill<<<4, 32, 60000>>>(data, 9, count);
  report.expect(holds(9), "more than 48 KiB after asking");
  cudaFuncAttributes attributes{};
  require(cudaFuncGetAttributes(&attributes, fill));
  report.expect(attributes.sharedSizeBytes == 0 && attributes.maxThreadsPerBlock == 1024 &&
                    attributes.maxDynamicSharedSizeBytes == 60000,
                "cudaFuncGetAttributes");
}

}  // namespace

void check_calls(Report& report) {
  std::vector<int> values(64);
  std::iota(values.begin(), values.end(), 3);
  const DeviceArray<int> in(values);
  const DeviceArray<double> averages(40);
  call_functions<<<1, 40>>>(in.data(), averages.data());
  const std::vector<double> found = averages.read();
  for (int t = 0; t < 40; ++t) {
    const double expected = t % 3 == 0   ? average(values.data(), t + 1)
                            : t % 3 == 1 ? average(values.data() + t, 4) + average(values.data(), 2)
                                         : -1;
    report.expect(found[static_cast<std::size_t>(t)] == expected, "calls");
  }

  std::vector<int> kinds(64);
  std::vector<unsigned> thirds(64);
  for (std::size_t t = 0; t < 64; ++t) kinds[t] = static_cast<int>(t * 7 % 11);
  for (std::size_t t = 0; t < 64; ++t) thirds[t] = static_cast<unsigned>(t * 5 % 3);
  const DeviceArray<int> device_kinds(kinds);
  const DeviceArray<unsigned> device_thirds(thirds);
  const DeviceArray<int> out(64);
  use_switch<<<1, 64>>>(device_kinds.data(), out.data());
  std::vector<int> chosen = out.read();
  for (std::size_t t = 0; t < 64; ++t) {
    report.expect(chosen[t] == choose(kinds[t], static_cast<int>(t)), "switch");
  }
  indexed_branch<<<1, 64>>>(device_thirds.data(), out.data());
  chosen = out.read();
  for (std::size_t t = 0; t < 64; ++t) {
    report.expect(chosen[t] == static_cast<int>(10 * (thirds[t] + 1)), "brx.idx");
  }
  check_launches(report);
}

}  // namespace ptx_test
