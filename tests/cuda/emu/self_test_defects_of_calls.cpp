// SPDX-License-Identifier: Apache-2.0
#include <cublas_v2.h>

#include "self_test_defect_kernels.hpp"
#include "self_test_defects.hpp"
#include "self_test_support.hpp"

namespace emulator_test {
namespace {

using kvevict::cuda::detail::launch_kernel;

/// A view, as kernels get them by value.
struct View {
  long long count;
  const float* data;
};
static __global__ void __launch_bounds__(128) copy_view(View view, float* out) {
  const long long i = threadIdx.x;
  if (i < view.count) {
    out[i] = view.data[i];
  }
}

void launch_of(const float* x, float* out, unsigned threads = 64) {
  print_status(launch_kernel("read_past_end", read_past_end, dim3(1), dim3(threads), 0, nullptr, x,
                             63, out));
}

void host_reads_device_memory() {
  const DeviceArray<float> x(std::vector<float>(8, 1.0f));
  const volatile float value = x.data()[3];
  judge(value == 1.0f);
}

void host_argument() {
  static float host[64];
  const DeviceArray<float> out(64);
  launch_of(host, out.data());
}

void freed_argument() {
  float* x = nullptr;
  require(cudaMalloc(&x, 64 * sizeof(float)));
  require(cudaFree(x));
  const DeviceArray<float> out(64);
  launch_of(x, out.data());
}

void view_of(const float* x) {
  const DeviceArray<float> out(64);
  print_status(launch_kernel("copy_view", copy_view, dim3(1), dim3(64), 0, nullptr, View{64, x},
                             out.data()));
}

void freed_memory_in_view() {
  float* x = nullptr;
  require(cudaMalloc(&x, 64 * sizeof(float)));
  require(cudaFree(x));
  view_of(x);
}

void too_many_threads() {
  const DeviceArray<float> x(64);
  const DeviceArray<float> out(64);
  launch_of(x.data(), out.data(), 1025);
}

void too_much_dynamic() {
  const DeviceArray<float> out(32);
  print_status(launch_kernel("carved_arrays", carved_arrays, dim3(1), dim3(32), std::size_t{49153},
                             nullptr, out.data(), 32, 0));
}

void long_copy() {
  const DeviceArray<float> x(16);
  std::vector<float> host(17);
  print_status(cudaMemcpy(host.data(), x.data(), 17 * sizeof(float), cudaMemcpyDeviceToHost));
}

void wrong_direction() {
  const DeviceArray<float> x(16);
  std::vector<float> host(16);
  print_status(cudaMemcpy(host.data(), x.data(), 16 * sizeof(float), cudaMemcpyHostToDevice));
}

cublasHandle_t handle() {
  cublasHandle_t created = nullptr;
  cublasCreate(&created);
  return created;
}

// The handle is not destroyed: the process ends here.
void update(int leading, const float* scale) {
  const DeviceArray<float> a(std::vector<float>(64, 1.0f));
  const DeviceArray<float> c(std::vector<float>(64, 1.0f));
  const float one = 1.0f;
  print_status(cublasSsyrk(handle(), CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, 8, 8,
                           scale != nullptr ? scale : &one, a.data(), leading, &one, c.data(), 8));
}

void small_leading_dimension() { update(7, nullptr); }

void large_leading_dimension() { update(9, nullptr); }

void device_scalar() {
  const DeviceArray<float> one(std::vector<float>{1.0f});
  update(8, one.data());
}

void host_array_of_pointers() {
  const DeviceArray<float> a(std::vector<float>(64, 1.0f));
  const DeviceArray<float> b(std::vector<float>(64, 1.0f));
  const float one = 1.0f;
  const float* all_a[] = {a.data()};
  float* all_b[] = {b.data()};
  print_status(cublasStrsmBatched(handle(), CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                                  CUBLAS_DIAG_NON_UNIT, 8, 8, &one, all_a, 8, all_b, 8, 1));
}

cudaStream_t stream() {
  cudaStream_t created = nullptr;
  require(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking));
  return created;
}

template <bool waits>
void read_of_stream() {
  kvevict_emulation::settings().lazy_streams = true;
  float value = 0.0f;
  const DeviceArray<float> x(std::vector<float>(1, 5.0f));
  cudaStream_t worker = stream();
  require(cudaMemcpyAsync(&value, x.data(), sizeof value, cudaMemcpyDeviceToHost, worker));
  if (waits) {
    require(cudaStreamSynchronize(worker));
  }
  judge(value == 5.0f);
}

template <bool waits>
void read_of_other_stream() {
  kvevict_emulation::settings().lazy_streams = true;
  const DeviceArray<float> x(std::vector<float>(1, 5.0f));
  const DeviceArray<float> y(std::vector<float>(1, 0.0f));
  cudaStream_t writer = stream();
  cudaStream_t reader = stream();
  cudaEvent_t written = nullptr;
  require(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
  require(cudaMemcpyAsync(y.data(), x.data(), sizeof(float), cudaMemcpyDeviceToDevice, writer));
  require(cudaEventRecord(written, writer));
  if (waits) {
    require(cudaStreamWaitEvent(reader, written, 0));
  }
  float value = 0.0f;
  require(cudaMemcpyAsync(&value, y.data(), sizeof value, cudaMemcpyDeviceToHost, reader));
  require(cudaStreamSynchronize(reader));
  judge(value == 5.0f);
  require(cudaEventDestroy(written));
}

Defect everywhere(const char* name, void (*run)(), const char* text) {
  return {name, run, {text}, {text}, {text}};
}

Defect with_asan(const char* name, void (*run)(), const char* text) {
  return {name, run, {}, {text}, {}};
}

}  // namespace

std::vector<Defect> call_defects() {
  return {
      with_asan("host reads device memory", &host_reads_device_memory, "use-after-poison"),
      everywhere("host memory as argument", &host_argument, "argument 0 is not device memory"),
      everywhere("freed memory as argument", &freed_argument, "argument 0 is not device memory"),
      with_asan("freed memory in a view", &freed_memory_in_view, "use-after-poison"),
      everywhere("1025 threads", &too_many_threads, "status 9"),
      everywhere("much dynamic shared memory without asking", &too_much_dynamic, "status 1"),
      everywhere("copy past the end", &long_copy, "status 1"),
      everywhere("copy in the wrong direction", &wrong_direction, "status 1"),
      everywhere("leading dimension too small", &small_leading_dimension, "status 7"),
      everywhere("leading dimension too large", &large_leading_dimension, "runs past the end"),
      everywhere("scalar on the device", &device_scalar, "device address in host pointer mode"),
      everywhere("array of pointers on the host", &host_array_of_pointers, "is not device memory"),
      everywhere("waiting for a stream", &read_of_stream<true>, right_value),
      everywhere("not waiting for a stream", &read_of_stream<false>, wrong_value),
      everywhere("waiting for an event", &read_of_other_stream<true>, right_value),
      everywhere("not waiting for an event", &read_of_other_stream<false>, wrong_value),
  };
}

}  // namespace emulator_test
