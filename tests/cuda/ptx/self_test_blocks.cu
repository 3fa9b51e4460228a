// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "self_test_operations.cuh"

namespace ptx_test {
namespace {

template <int threads, class T>
__global__ void __launch_bounds__(threads) sum_tree(const T* in, int count, T* out) {
  __shared__ T partial[threads];
  const int t = static_cast<int>(threadIdx.x);
  T sum = 0;
  for (int i = static_cast<int>(blockIdx.x) * threads + t; i < count;
       i += static_cast<int>(gridDim.x) * threads) {
    sum += in[i];
  }
  partial[t] = sum;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = partial[0];
}

struct Combined {
  int count, any, all, none;
};
__global__ void combine(const int* in, Combined* out) {
  const int value = in[threadIdx.x];
  Combined result{};
  result.count = __syncthreads_count(value > 3);
  result.any = __syncthreads_or(value == 9);
  result.all = __syncthreads_and(value < 10);
  result.none = __syncthreads_and(value < 9);
  out[threadIdx.x] = result;
}

/// Every special register that C++ can name, in blocks of three dimensions that fill no warp.
__global__ void where(int* out) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned lane = 0;
  unsigned below = 0;
  asm("mov.u32 %0, %%laneid; mov.u32 %1, %%lanemask_lt;" : "=r"(lane), "=r"(below));
  const unsigned size = blockDim.x * blockDim.y * blockDim.z;
  const bool right = lane == thread % 32 && below == (1u << lane) - 1 && warpSize == 32;
  out[block * size + thread] = static_cast<int>(right ? block * 1000 + thread : 0);
}

/// Two arrays in dynamic shared memory behind a static one.
__global__ void carve(const int* in, int count, int* out) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ int offset;
  auto* first = reinterpret_cast<int*>(memory);
  auto* second = reinterpret_cast<double*>(memory + (count * sizeof(int) + 15) / 16 * 16);
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) offset = 5;
  first[t] = in[t];
  second[t] = 0.5 * in[t];
  __syncthreads();
  const int other = (t + offset) % count;
  out[t] = first[other] + static_cast<int>(4 * second[other]);
}

/// cp.async in two stages; the copies are seen after the wait and a barrier.
__global__ void copy_ahead(const float4* in, int rounds, float* out) {
#if __CUDA_ARCH__ >= 800
  __shared__ float4 stage[2][32];
  const int t = static_cast<int>(threadIdx.x);
  const auto start = [&](int round) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(&stage[round % 2][t]));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + 32 * round + t)
                 : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float sum = 0;
  start(0);
  for (int round = 0; round < rounds; ++round) {
    if (round + 1 < rounds) {
      start(round + 1);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    const float4 value = stage[round % 2][31 - t];
    sum += value.x + 10 * value.w;
    __syncthreads();
  }
  out[t] = sum;
#endif
}
/// A row that ends early: the rest is zero.
__global__ void copy_part(const float* in, unsigned bytes, float* out) {
#if __CUDA_ARCH__ >= 800
  __shared__ float4 row;
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(&row));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2; cp.async.wait_all;" ::"r"(to),
               "l"(in), "r"(bytes)
               : "memory");
  out[0] = row.x, out[1] = row.y, out[2] = row.z, out[3] = row.w;
#endif
}

void check_copies(Report& report) {
  std::vector<float> values(4 * 32 * 3);
  std::iota(values.begin(), values.end(), 1.0f);
  const DeviceArray<float> in(values);
  const DeviceArray<float> out(32);
  copy_ahead<<<1, 32>>>(reinterpret_cast<const float4*>(in.data()), 3, out.data());
  std::vector<float> found = out.read();
  if (std::isnan(found[0])) return;  // compiled for a device without cp.async
  for (std::size_t t = 0; t < 32; ++t) {
    float sum = 0;
    for (std::size_t round = 0; round < 3; ++round) {
      const std::size_t first = 4 * (32 * round + 31 - t);
      sum += values[first] + 10 * values[first + 3];
    }
    report.expect(found[t] == sum, "cp.async");
  }
  copy_part<<<1, 1>>>(in.data(), 8, out.data());
  found = out.read();
  report.expect(found[0] == 1 && found[1] == 2 && found[2] == 0 && found[3] == 0,
                "cp.async of a part");
}

template <class T>
void check_sums(Report& report) {
  for (const int count : {1, 31, 257, 5000}) {
    std::vector<T> values(static_cast<std::size_t>(count));
    T expected = 0;
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] = static_cast<T>(k % 13);
      expected += values[k];
    }
    const DeviceArray<T> in(values);
    const DeviceArray<T> out(3);
    sum_tree<128><<<3, 128>>>(in.data(), count, out.data());
    const std::vector<T> sums = out.read();
    report.expect(sums[0] + sums[1] + sums[2] == expected, "sum of " + std::to_string(count));
  }
}

}  // namespace

void check_blocks(Report& report) {
  check_sums<float>(report);
  check_sums<double>(report);
  check_copies(report);

  std::vector<int> values(80);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<int>(k * 7 % 10);
  const DeviceArray<int> in(values);
  const DeviceArray<Combined> out(80);
  combine<<<1, 80>>>(in.data(), out.data());
  for (const Combined& found : out.read()) {
    report.expect(found.count == 48 && found.any == 1 && found.all == 1 && found.none == 0,
                  "barriers that combine");
  }

  const DeviceArray<int> places(2 * 3 * 2 * 3 * 5 * 3);
  where<<<dim3(2, 3, 2), dim3(3, 5, 3)>>>(places.data());
  const std::vector<int> found = places.read();
  for (std::size_t k = 0; k < found.size(); ++k) {
    report.expect(found[k] == static_cast<int>(k / 45 * 1000 + k % 45), "special registers");
  }

  const DeviceArray<int> moved(48);
  carve<<<1, 48, 48 * sizeof(int) + 48 * sizeof(double)>>>(in.data(), 48, moved.data());
  const std::vector<int> carved = moved.read();
  for (std::size_t t = 0; t < 48; ++t) {
    report.expect(carved[t] == 3 * values[(t + 5) % 48], "dynamic shared memory");
  }
}

}  // namespace ptx_test
