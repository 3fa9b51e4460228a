// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "self_test_operations.cuh"

namespace ptx_test {
namespace {

// Results that do not depend on the order of the threads.
template <class T>
struct Results {
  T sum, low, high, ones, any, odd, exchanged, swapped;
  unsigned counted_up, counted_down;
};

template <class T>
__device__ void update_all(Results<T>* r, T value, int t) {
  atomicAdd(&r->sum, value);
  atomicMin(&r->low, value);
  atomicMax(&r->high, value);
  atomicAnd(&r->ones, static_cast<T>(value | 0xf0));
  atomicOr(&r->any, value);
  atomicXor(&r->odd, value);
  atomicExch(&r->exchanged, T{5});
  atomicCAS(&r->swapped, T{0}, static_cast<T>(t + 1));
  atomicInc(&r->counted_up, 9);
  atomicDec(&r->counted_down, 6);
}

template <class T, bool in_shared>
__global__ void update(const T* values, int count, Results<T>* results, int* tickets) {
  __shared__ Results<T> shared;
  const int t = static_cast<int>(threadIdx.x);
  if (in_shared && t == 0) shared = *results;
  __syncthreads();
  Results<T>* target = in_shared ? &shared : results;
  if (t < count) update_all(target, values[t], t);
  __syncthreads();
  if (in_shared && t == 0) *results = shared;
  // The numbers that atomicAdd returns are all different.
  if (t < count) tickets[1 + atomicAdd(tickets, 1)] = t;
}

template <class T, bool in_shared>
void check_type(Report& report, const std::string& name) {
  constexpr int count = 70;
  std::vector<T> values(count);
  for (int t = 0; t < count; ++t)
    values[static_cast<std::size_t>(t)] = static_cast<T>(t * 37 - 900);
  const Results<T> start{0, T{1000}, static_cast<T>(0), static_cast<T>(-1), 0, 0, 1, 0, 0, 0};
  const DeviceArray<T> in(values);
  const DeviceArray<Results<T>> results(std::vector<Results<T>>{start});
  const DeviceArray<int> tickets(std::vector<int>(count + 1, 0));
  update<T, in_shared><<<1, 96>>>(in.data(), count, results.data(), tickets.data());
  const Results<T> found = results.read()[0];
  Results<T> expected = start;
  for (const T value : values) {
    expected.sum = static_cast<T>(expected.sum + value);
    expected.low = std::min(expected.low, value);
    expected.high = std::max(expected.high, value);
    expected.ones &= static_cast<T>(value | 0xf0);
    expected.any |= value;
    expected.odd ^= value;
  }
  report.expect(found.sum == expected.sum, "atom.add " + name);
  report.expect(found.low == expected.low, "atom.min " + name);
  report.expect(found.high == expected.high, "atom.max " + name);
  report.expect(found.ones == expected.ones, "atom.and " + name);
  report.expect(found.any == expected.any, "atom.or " + name);
  report.expect(found.odd == expected.odd, "atom.xor " + name);
  report.expect(found.exchanged == 5, "atom.exch " + name);
  report.expect(found.swapped >= 1 && found.swapped <= static_cast<T>(count), "atom.cas " + name);
  report.expect(found.counted_up == count % 10, "atom.inc " + name);
  report.expect(found.counted_down == 0, "atom.dec " + name);
  std::vector<int> order = tickets.read();
  report.expect(order[0] == count, "tickets " + name);
  std::sort(order.begin() + 1, order.end());
  bool all = true;
  for (int t = 0; t < count; ++t) all &= order[static_cast<std::size_t>(t + 1)] == t;
  report.expect(all, "values returned by atom.add " + name);
}

template <class T>
__global__ void add_floats(T* sum, T* old) {
  const T before = atomicAdd(sum, static_cast<T>(threadIdx.x + 1));
  atomicMax(reinterpret_cast<unsigned*>(old), before > 100 ? 1u : 0u);
}

/// The last block adds up what the others have left behind.
__global__ void sum_blocks(const int* values, int* partial, unsigned* done, int* total) {
  __shared__ bool last;
  const unsigned t = threadIdx.x;
  if (t == 0) {
    int sum = 0;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += values[blockIdx.x * blockDim.x + i];
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || t != 0) return;
  __threadfence();
  int sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += partial[b];
  *total = sum;
}

}  // namespace

void check_atomics(Report& report) {
  check_type<int, false>(report, "s32");
  check_type<int, true>(report, "shared s32");
  check_type<unsigned, false>(report, "u32");
  check_type<unsigned, true>(report, "shared u32");
  check_type<unsigned long long, false>(report, "u64");
  check_type<unsigned long long, true>(report, "shared u64");

  const DeviceArray<float> sum(std::vector<float>{0.5f});
  const DeviceArray<double> sum_double(std::vector<double>{0.25});
  const DeviceArray<double> old(std::vector<double>{0});
  add_floats<<<1, 64>>>(sum.data(), reinterpret_cast<float*>(old.data()));
  add_floats<<<1, 64>>>(sum_double.data(), old.data());
  report.expect(sum.read()[0] == 2080.5f, "atom.add f32");
  report.expect(sum_double.read()[0] == 2080.25, "atom.add f64");

  std::vector<int> values(320);
  int expected = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int>(i * i % 91);
    expected += values[i];
  }
  const DeviceArray<int> in(values);
  const DeviceArray<int> partial(10);
  const DeviceArray<unsigned> done(std::vector<unsigned>{0});
  const DeviceArray<int> total(1);
  sum_blocks<<<10, 32>>>(in.data(), partial.data(), done.data(), total.data());
  report.expect(total.read()[0] == expected, "the last block finishes");
}

}  // namespace ptx_test
