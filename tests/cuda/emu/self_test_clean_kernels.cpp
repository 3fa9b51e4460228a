// SPDX-License-Identifier: Apache-2.0
#include "self_test_clean_kernels.hpp"

#include "kvevict/cuda/compat.cuh"
#include "self_test_support.hpp"

namespace emulator_test {
namespace {

using kvevict::cuda::full_warp;
using kvevict::cuda::detail::launch_kernel;

constexpr int tile = 8;

template <int threads>
__global__ void __launch_bounds__(threads) sum_rows(const double* rows, int count, double* sums) {
  KVEVICT_SHARED(double, of_warp, [threads / 32]);
  const int t = static_cast<int>(threadIdx.x);
  double sum = 0.0;
  for (int i = t; i < count; i += threads) {
    sum += rows[static_cast<long long>(blockIdx.x) * count + i];
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(full_warp, sum, static_cast<unsigned>(offset));
  }
  if (t % 32 == 0) {
    of_warp[t / 32] = sum;
  }
  __syncthreads();
  if (t == 0) {
    double total = 0.0;
    for (int warp = 0; warp < threads / 32; ++warp) {
      total += of_warp[warp];
    }
    sums[blockIdx.x] = total;
  }
}

__global__ void __launch_bounds__(128)
    pack_above(const float* values, int count, float threshold, int* packed, int* found) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const unsigned lane = threadIdx.x % 32;
  const bool above = i < count && values[i] > threshold;
  const unsigned mask = __ballot_sync(full_warp, above);
  int base = 0;
  if (lane == 0) {
    base = atomicAdd(found, __popc(mask));
  }
  base = __shfl_sync(full_warp, base, 0);
  if (above) {
    packed[base + __popc(mask & ((1u << lane) - 1u))] = i;
  }
}

__global__ void __launch_bounds__(tile* tile)
    multiply_by_transpose(const float* a, int n, float* product) {
  kvevict::cuda::SharedCarver carver;
  float* left = carver.take<float>(tile * tile);
  float* right = carver.take<float>(tile * tile);
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.y) * tile + y;
  const int column = static_cast<int>(blockIdx.x) * tile + x;
  const int other = static_cast<int>(blockIdx.x) * tile + y;
  float sum = 0.0f;
  for (int first = 0; first < n; first += tile) {
    const bool inside = first + x < n;
    left[y * tile + x] = inside && row < n ? a[row * n + first + x] : 0.0f;
    right[y * tile + x] = inside && other < n ? a[other * n + first + x] : 0.0f;
    __syncthreads();
    KVEVICT_UNROLL
    for (int k = 0; k < tile; ++k) {
      sum += left[y * tile + k] * right[x * tile + k];
    }
    __syncthreads();
  }
  if (row < n && column < n) {
    product[row * n + column] = sum;
  }
}

__global__ void __launch_bounds__(32) shuffle_lanes(int width, long long* out) {
  const int lane = static_cast<int>(threadIdx.x);
  const auto number = static_cast<long long>(lane);
  out[lane] = __shfl_sync(full_warp, number, 5, width);
  out[32 + lane] = __shfl_up_sync(full_warp, number, 3, width);
  out[64 + lane] = __shfl_down_sync(full_warp, number, 3, width);
  out[96 + lane] = __shfl_xor_sync(full_warp, number, 6, width);
}

__global__ void __launch_bounds__(64) combine(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  const auto unsigned_t = static_cast<unsigned>(t);
  const int even = t % 2 == 0;
  int row = 0;
  const auto put = [&](auto value) { out[64 * row++ + t] = static_cast<int>(value); };
  put(__syncthreads_or(even));
  put(__syncthreads_and(even));
  put(__syncthreads_count(even));
  put(__ballot_sync(full_warp, even));
  put(__match_any_sync(full_warp, t % 3));
  put(__reduce_add_sync(full_warp, 10 - t));
  put(__reduce_min_sync(full_warp, 10 - t));
  put(__reduce_max_sync(full_warp, 10 - t));
  put(__reduce_and_sync(full_warp, unsigned_t));
  put(__reduce_or_sync(full_warp, unsigned_t));
  put(__reduce_xor_sync(full_warp, unsigned_t));
  put(__any_sync(full_warp, even));
  put(__all_sync(full_warp, even));
}

__global__ void __launch_bounds__(2)
    update(int* x, unsigned* u, unsigned long long* wide, float* single, double* twice) {
  const int number = static_cast<int>(2 * blockIdx.x + threadIdx.x);  // 0 to 99
  atomicAdd(&x[0], number);
  atomicSub(&x[1], number);
  atomicMin(&x[2], 50 - number);
  atomicMax(&x[3], 50 - number);
  atomicAnd(&x[4], ~(1 << (number % 8)));
  atomicOr(&x[5], 1 << (number % 8));
  atomicXor(&x[6], number);
  int seen = 0;
  for (int before = 1; before != seen;) {
    before = seen;
    seen = atomicCAS(&x[7], before, before + number);
  }
  atomicExch(&x[8], 77);
  atomicInc(&u[0], 9);
  atomicDec(&u[1], 9);
  atomicAdd(wide, 1ull << 33);
  atomicAdd(single, 1.0f);
  atomicAdd(twice, 1);
}

__global__ void __launch_bounds__(24) report_indices(unsigned* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned place = 6 + 6 * (block * 24 + thread);
  if (block == 0 && thread == 0) {
    const unsigned shape[] = {gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z};
    for (unsigned i = 0; i < 6; ++i) {
      out[i] = shape[i];
    }
  }
  const unsigned own[] = {blockIdx.x,  blockIdx.y,  blockIdx.z,
                          threadIdx.x, threadIdx.y, threadIdx.z};
  for (unsigned i = 0; i < 6; ++i) {
    out[place + i] = own[i];
  }
}

__global__ void __launch_bounds__(32) call_scalar_functions(const float* x, int* right) {
  if (threadIdx.x != 0) {
    return;
  }
  int next = 0;
  const auto put = [&](bool value) { right[next++] = value; };
  put(__ldg(x) == 2.0f && __ldcs(x + 1) == 3.0f && __ldcg(x) == 2.0f);
  put(__popc(0xf0f0u) == 8 && __popcll(~0ull) == 64);
  put(__clz(1) == 31 && __clz(0) == 32 && __clzll(1) == 63 && __clzll(0) == 64);
  put(__ffs(8) == 4 && __ffs(0) == 0 && __ffsll(1ll << 40) == 41);
  put(__brev(1u) == 0x80000000u && __brev(0xc0000001u) == 0x80000003u);
  put(__umulhi(0x80000000u, 6u) == 3u);
  put(__float_as_uint(1.0f) == 0x3f800000u && __uint_as_float(0x40000000u) == 2.0f);
  put(__float_as_int(-0.0f) < 0 && __int_as_float(0) == 0.0f);
  put(__longlong_as_double(__double_as_longlong(0.1)) == 0.1);
  put(__fmaf_rn(x[0], x[1], 1.0f) == 7.0f && __fmul_rn(x[0], x[1]) == 6.0f);
  put(__frcp_rn(x[0]) == 0.5f && __fsqrt_rn(16.0f) == 4.0f);
  put(rsqrtf(4.0f) == 0.5f && rsqrt(16.0) == 0.25);
  put(fabsf(__expf(1.0f) - 2.7182818f) < 1e-5f && __logf(1.0f) == 0.0f);
  put(min(2, 3) == 2 && max(2.5f, 1.0f) == 2.5f);
}

template <int most>
__global__ void __launch_bounds__(32) touch_dynamic(int count, int* out) {
  static_assert(most > 0);
  kvevict::cuda::SharedCarver carver;
  int* values = carver.take<int>(count);
  values[count - 1 - static_cast<int>(threadIdx.x)] = 1;
  __syncthreads();
  out[threadIdx.x] = values[count - 1 - static_cast<int>(threadIdx.x) / 2];
}

}  // namespace

std::vector<double> row_sums(const std::vector<double>& rows, int count) {
  const DeviceArray<double> x(rows);
  const std::size_t blocks = rows.size() / static_cast<std::size_t>(count);
  const DeviceArray<double> sums(blocks);
  require(launch_kernel("sum_rows", sum_rows<96>, dim3(static_cast<unsigned>(blocks)), dim3(96), 0,
                        nullptr, x.data(), count, sums.data()));
  return sums.read();
}

std::vector<int> positions_above(const std::vector<float>& values, float threshold) {
  const DeviceArray<float> x(values);
  const DeviceArray<int> packed(values.size());
  const DeviceArray<int> found(std::vector<int>(1));
  const auto blocks = static_cast<unsigned>((values.size() + 127) / 128);
  require(launch_kernel("pack_above", pack_above, dim3(blocks), dim3(128), 0, nullptr, x.data(),
                        static_cast<int>(values.size()), threshold, packed.data(), found.data()));
  std::vector<int> positions = packed.read();
  positions.resize(static_cast<std::size_t>(found.read()[0]));
  return positions;
}

std::size_t tile_bytes() { return kvevict::cuda::shared_bytes<float>(tile * tile); }

std::vector<float> times_transpose(const std::vector<float>& a, int n) {
  const DeviceArray<float> x(a);
  const DeviceArray<float> product(a.size());
  const auto tiles = static_cast<unsigned>((n + tile - 1) / tile);
  require(launch_kernel("multiply_by_transpose", multiply_by_transpose, dim3(tiles, tiles),
                        dim3(tile, tile), 2 * tile_bytes(), nullptr, x.data(), n, product.data()));
  return product.read();
}

std::vector<long long> shuffled_lanes(int width) {
  const DeviceArray<long long> out(128);
  require(launch_kernel("shuffle_lanes", shuffle_lanes, dim3(1), dim3(32), 0, nullptr, width,
                        out.data()));
  return out.read();
}

std::vector<int> collectives() {
  const DeviceArray<int> out(13 * 64);
  require(launch_kernel("combine", combine, dim3(1), dim3(64), 0, nullptr, out.data()));
  return out.read();
}

std::vector<double> atomics() {
  const DeviceArray<int> x(std::vector<int>{0, 0, 1000, -1000, 255, 0, 0, 0, 0});
  const DeviceArray<unsigned> u(std::vector<unsigned>(2));
  const DeviceArray<unsigned long long> wide(std::vector<unsigned long long>(1));
  const DeviceArray<float> single(std::vector<float>(1));
  const DeviceArray<double> twice(std::vector<double>(1));
  require(launch_kernel("update", update, dim3(50), dim3(2), 0, nullptr, x.data(), u.data(),
                        wide.data(), single.data(), twice.data()));
  std::vector<double> all;
  for (const int value : x.read()) {
    all.push_back(value);
  }
  for (const unsigned value : u.read()) {
    all.push_back(value);
  }
  all.push_back(static_cast<double>(wide.read()[0]));
  all.push_back(static_cast<double>(single.read()[0]));
  all.push_back(twice.read()[0]);
  return all;
}

std::vector<unsigned> indices() {
  const DeviceArray<unsigned> out(6 + 6 * 12 * 24);
  require(launch_kernel("report_indices", report_indices, dim3(2, 3, 2), dim3(4, 2, 3), 0, nullptr,
                        out.data()));
  return out.read();
}

std::vector<int> scalar_functions() {
  const DeviceArray<float> x(std::vector<float>{2.0f, 3.0f});
  const DeviceArray<int> right(14);
  require(launch_kernel("call_scalar_functions", call_scalar_functions, dim3(1), dim3(32), 0,
                        nullptr, x.data(), right.data()));
  return right.read();
}

bool runs_with_dynamic_shared(std::size_t bytes) {
  const DeviceArray<int> out(32);
  require(cudaFuncSetAttribute(touch_dynamic<1>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)));
  require(launch_kernel("touch_dynamic", touch_dynamic<1>, dim3(1), dim3(32), bytes, nullptr,
                        static_cast<int>(bytes / sizeof(int)), out.data()));
  return out.read() == std::vector<int>(32, 1);
}

}  // namespace emulator_test
