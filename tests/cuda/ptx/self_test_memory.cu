// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "self_test_operations.cuh"

namespace ptx_test {
namespace {

template <class T>
__global__ void copy(const T* from, T* to, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] = from[i];
}

/// Copies bytes as elements of T, which may be a vector.
template <class T>
void check_copy(Report& report, const char* name) {
  std::vector<unsigned char> bytes(64 * sizeof(T));
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(3));
  const DeviceArray<unsigned char> from(bytes);
  const DeviceArray<unsigned char> to(bytes.size());
  copy<<<2, 48>>>(reinterpret_cast<const T*>(from.data()), reinterpret_cast<T*>(to.data()), 64);
  report.expect(to.read() == bytes, std::string("copy of ") + name);
}

/// Bytes, halves and their signs, at odd places.
__global__ void widen(const signed char* bytes, const short* shorts, const unsigned char* plain,
                      long long* out) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = 1000000ll * bytes[i] + 1000ll * shorts[i] + plain[i + 1];
}

struct Table {
  float values[9];
  short small[5];
  char letter;
};
/// A parameter that is indexed at run time.
__global__ void index_parameter(Table table, int count, float* out) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = table.values[i % count] + static_cast<float>(table.small[i % 5] * table.letter);
}

/// An array in local memory, and its address.
__global__ void use_local(const int* order, int count, int* out) {
  int local[24];
  const int t = static_cast<int>(threadIdx.x);
  for (int i = 0; i < count; ++i) local[i] = t * i;
  int* chosen = order[t] % 2 == 0 ? local : local + 3;
  int sum = 0;
  for (int i = 0; i < count - 3; ++i) sum += chosen[(i * order[t]) % (count - 3)];
  out[t] = sum;
}
int local_sum(int t, int order, int count) {
  int sum = 0;
  for (int i = 0; i < count - 3; ++i) {
    sum += t * ((i * order) % (count - 3) + (order % 2 == 0 ? 0 : 3));
  }
  return sum;
}

/// One pointer to global, shared or local memory.
__device__ __noinline__ int read_generic(const int* from, int i) { return from[i]; }
__global__ void use_generic(int* global, int* out) {
  __shared__ int shared[32];
  extern __shared__ int dynamic[];
  int local[4] = {7, 5, 3, 1};
  const int t = static_cast<int>(threadIdx.x);
  shared[t] = 2 * t;
  dynamic[t] = 3 * t;
  __syncthreads();
  const int* from = t % 4 == 0 ? global : t % 4 == 1 ? shared : t % 4 == 2 ? dynamic : local;
  out[t] = read_generic(from, t % 4 == 3 ? t / 8 : 31 - t) + 100 * __isShared(from) +
           1000 * __isGlobal(from);
}

template <class T>
__global__ void shared_types(const T* from, T* out) {
  __shared__ T tile[8][33];
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  tile[y][x] = from[y * 32 + x];
  __syncthreads();
  const int k = y * 32 + x;
  out[k] = tile[k % 8][k / 8];
}
template <class T>
void check_shared(Report& report, const char* name) {
  std::vector<T> values(256);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<T>(3 * k + 1);
  const DeviceArray<T> from(values);
  const DeviceArray<T> out(values.size());
  shared_types<<<1, dim3(32, 8)>>>(from.data(), out.data());
  const std::vector<T> found = out.read();
  bool right = true;
  for (std::size_t k = 0; k < 256; ++k) right &= found[k] == values[k % 8 * 32 + k / 8];
  report.expect(right, std::string("shared memory of ") + name);
}

__device__ int device_counter = 41;
__device__ double device_table[4] = {0.5, 1.5, 2.5, 3.5};
__constant__ float constant_table[3] = {1, 2, 3};
__device__ int* device_pointer = &device_counter;
__global__ void use_variables(double* out) {
  if (threadIdx.x == 0) ++*device_pointer;
  out[threadIdx.x] = device_table[threadIdx.x % 4] + constant_table[threadIdx.x % 3];
}

void check_variables(Report& report) {
  const float changed[] = {10, 20};
  require(cudaMemcpyToSymbol(constant_table, changed, sizeof changed, sizeof(float)));
  const DeviceArray<double> out(12);
  use_variables<<<1, 12>>>(out.data());
  const std::vector<double> found = out.read();
  const double constants[] = {1, 10, 20};
  for (std::size_t t = 0; t < 12; ++t) {
    report.expect(found[t] == 0.5 + static_cast<double>(t % 4) + constants[t % 3],
                  "variables of the module");
  }
  int counter = 0;
  require(cudaMemcpyFromSymbol(&counter, device_counter, sizeof counter));
  report.expect(counter == 42, "variable written by a kernel");
  void* address = nullptr;
  require(cudaGetSymbolAddress(&address, device_table));
  double third = 0;
  require(
      cudaMemcpy(&third, static_cast<double*>(address) + 2, sizeof third, cudaMemcpyDeviceToHost));
  report.expect(third == 2.5, "address of a variable");
}

void check_places(Report& report) {
  std::vector<int> order(32);
  std::iota(order.begin(), order.end(), 1);
  const DeviceArray<int> orders(order);
  const DeviceArray<int> out(32);
  use_local<<<1, 32>>>(orders.data(), 24, out.data());
  std::vector<int> found = out.read();
  for (int t = 0; t < 32; ++t) {
    report.expect(found[static_cast<std::size_t>(t)] == local_sum(t, t + 1, 24), "local memory");
  }
  use_generic<<<1, 32, 32 * sizeof(int)>>>(orders.data(), out.data());
  found = out.read();
  for (int t = 0; t < 32; ++t) {
    const int from = 31 - t;
    const int local[] = {7, 5, 3, 1};
    const int expected = t % 4 == 0   ? from + 1 + 1000
                         : t % 4 == 1 ? 2 * from + 100
                         : t % 4 == 2 ? 3 * from + 100
                                      : local[t / 8];
    report.expect(found[static_cast<std::size_t>(t)] == expected, "generic addresses");
  }
}

}  // namespace

void check_memory(Report& report) {
  check_copy<char>(report, "bytes");
  check_copy<short>(report, "b16");
  check_copy<int>(report, "b32");
  check_copy<double>(report, "b64");
  check_copy<uchar4>(report, "v4.b8");
  check_copy<ushort2>(report, "v2.b16");
  check_copy<ushort4>(report, "v4.b16");
  check_copy<float2>(report, "v2.f32");
  check_copy<uint4>(report, "v4.b32");
  check_copy<double2>(report, "v2.f64");
  check_shared<unsigned char>(report, "bytes");
  check_shared<short>(report, "b16");
  check_shared<float>(report, "b32");
  check_shared<double>(report, "b64");

  const DeviceArray<signed char> bytes(std::vector<signed char>{-128, 127, -1, 5});
  const DeviceArray<short> shorts(std::vector<short>{-32768, 32767, -2, 9});
  const DeviceArray<unsigned char> plain(std::vector<unsigned char>{0, 255, 254, 1, 2});
  const DeviceArray<long long> wide(4);
  widen<<<1, 4>>>(bytes.data(), shorts.data(), plain.data(), wide.data());
  report.expect(wide.read() == std::vector<long long>{-160767745, 159767254, -1001999, 5009002},
                "extension of the sign");

  Table table{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {-1, -2, -3, -4, -5}, 10};
  const DeviceArray<float> sums(16);
  index_parameter<<<1, 16>>>(table, 7, sums.data());
  const std::vector<float> found = sums.read();
  for (std::size_t i = 0; i < 16; ++i) {
    report.expect(found[i] == table.values[i % 7] + static_cast<float>(table.small[i % 5] * 10),
                  "parameter indexed at run time");
  }
  check_places(report);
  check_variables(report);
}

}  // namespace ptx_test
