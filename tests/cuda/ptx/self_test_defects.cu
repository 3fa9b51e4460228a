// SPDX-License-Identifier: Apache-2.0
// Kernels with a mistake each, next to the same kernel without it. The mistake must be reported in
// the expected words, and nothing else may be.
#include <algorithm>
#include <cassert>
#include <functional>
#include <string_view>

#include "../emu/settings.hpp"
#include "ptx_settings.hpp"
#include "self_test_operations.cuh"

namespace ptx_test {
namespace {

constexpr unsigned full = 0xffffffffu;
constexpr const char* silence = "";

enum class Reduction {
  right,
  no_barrier,
  divergent_barrier,
  early_return,
  unwritten,
  off_by_one,
  no_syncwarp
};
template <Reduction kind>
__global__ void reduce(const float* in, int count, float* out) {
  __shared__ float partial[256];
  const int t = static_cast<int>(threadIdx.x);
  if (kind == Reduction::early_return && t >= count) return;
  if (kind == Reduction::unwritten) {
    if (t != 5) partial[t] = in[t];
  } else {
    partial[kind == Reduction::off_by_one ? t + 1 : t] = t < count ? in[t] : 0;
  }
  if (kind != Reduction::no_barrier) __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    if (kind == Reduction::divergent_barrier) {
      if (t < half) __syncthreads();
    } else if (kind == Reduction::no_syncwarp) {
      if (half > 32) __syncthreads();
    } else {
      __syncthreads();
    }
  }
  if (t == 0) *out = partial[0];
}

enum class Shuffle { right, divergent, outside_of_mask, two_places, not_in_mask, returned };
template <Shuffle kind>
__global__ void shuffle(const float* in, int count, float* out) {
  const int t = static_cast<int>(threadIdx.x);
  if (kind == Shuffle::returned && t == count) return;
  float value = in[t];
  const unsigned mask = __ballot_sync(kind == Shuffle::returned ? ~(1u << count) : full, t < count);
  if (kind == Shuffle::divergent || kind == Shuffle::outside_of_mask) {
    const unsigned used = kind == Shuffle::divergent ? full : mask;
    if (t < count) value += __shfl_xor_sync(used, value, 16);
  } else if (kind == Shuffle::two_places) {
    if (t % 2 == 0) {
      value += __shfl_xor_sync(full, value, 1);
    } else {
      value -= __shfl_xor_sync(full, value, 2) + 1;
    }
  } else if (kind == Shuffle::not_in_mask) {
    value += __shfl_xor_sync(mask, value, 1);
  } else {
    value += __shfl_xor_sync(full, value, 16);
  }
  out[t] = value;
}

__global__ void read_write(const float* in, int count, float* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = in[i];
}
__global__ void copy_vectors(const float* in, float* out) {
  reinterpret_cast<float4*>(out)[threadIdx.x] =
      *reinterpret_cast<const float4*>(in + 4 * threadIdx.x);
}
__global__ void write_vector(float* out) { *reinterpret_cast<float4*>(out) = {1, 2, 3, 4}; }
__global__ void use_dynamic(int count, float* out) {
  extern __shared__ float memory[];
  const int t = static_cast<int>(threadIdx.x);
  if (t < count) memory[t] = static_cast<float>(t);
  __syncthreads();
  if (t < count) out[t] = memory[count - 1 - t];
}
__global__ void use_generic(bool in_shared, float* out) {
  extern __shared__ float memory[];
  float* to = in_shared ? memory : out;
  to[threadIdx.x] = 1;
}
__global__ void use_local(int beyond, const int* order, int* out) {
  int local[16];
  for (int i = 0; i < 16; ++i) local[i] = i * beyond;
  out[threadIdx.x] = local[order[threadIdx.x] + beyond];
}
__global__ void two_barriers(const int* in, int* out) {
  __shared__ int shared[64];
  const int t = static_cast<int>(threadIdx.x);
  shared[t] = in[t];
  if (in[t] > 0) {
    out[t] = 1;
    __syncthreads();
    out[t] += shared[63 - t];
  } else {
    __syncthreads();
    out[t] = 3 * shared[t];
  }
}

// Races.
__global__ void exchange(bool synchronises, const float* in, float* out) {
  __shared__ float shared[32];
  const unsigned t = threadIdx.x;
  shared[t] = in[t];
  if (synchronises) __syncwarp();
  out[t] = shared[t ^ 1];
}
__global__ void exchange_bytes(bool synchronises, const unsigned char* in, unsigned char* out) {
  __shared__ unsigned char shared[64];
  const unsigned t = threadIdx.x;
  shared[t] = in[t];
  if (synchronises) __syncthreads();
  out[t] = shared[t ^ 63];
}
__global__ void write_after_read(bool synchronises, float* in_out) {
  __shared__ float shared[64];
  const unsigned t = threadIdx.x;
  shared[t] = in_out[t];
  __syncthreads();
  const float other = shared[t ^ 32];
  if (synchronises) __syncthreads();
  shared[t] = 2 * other;
  __syncthreads();
  in_out[t] = shared[63 - t];
}
__global__ void count_in_shared(bool synchronises, const int* in, int* out) {
  __shared__ int counts[4];
  const unsigned t = threadIdx.x;
  if (t < 4) counts[t] = 0;
  __syncthreads();
  atomicAdd(&counts[in[t] % 4], 1);
  if (synchronises) __syncthreads();
  if (t < 4) out[t] = counts[t];
}
__global__ void clash(unsigned apart, float* out) {
  out[threadIdx.x / 2 + threadIdx.x % 2 * apart] = 1;
}
__global__ void clash_of_blocks(unsigned apart, float* out) {
  if (threadIdx.x == 3) out[blockIdx.x * apart] = static_cast<float>(blockIdx.x);
}
__global__ void neighbour_block(int shift, float* in_out) {
  const int i = static_cast<int>(blockIdx.x);
  if (threadIdx.x == 0) in_out[i] = in_out[i + shift] + 1;
}
__global__ void pass_on(bool fences, int* flags, int* values, int* out) {
  if (threadIdx.x != 0) return;
  values[blockIdx.x] = static_cast<int>(blockIdx.x) + 5;
  if (fences) __threadfence();
  if (atomicAdd(flags, 1) == static_cast<int>(gridDim.x) - 1)
    out[0] = values[(blockIdx.x + 1) % gridDim.x];
}
__global__ void copy_without_wait(bool waits, const float4* in, float* out) {
#if __CUDA_ARCH__ >= 800
  __shared__ float4 shared[32];
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(&shared[threadIdx.x]));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + threadIdx.x)
               : "memory");
  if (waits) asm volatile("cp.async.wait_all;" ::: "memory");
  out[threadIdx.x] = shared[threadIdx.x].x;
#endif
}

// Others.
__global__ void unknown_instruction(unsigned* out) {
  unsigned result = 0;
  asm("add.f16x2 %0, %1, %1;" : "=r"(result) : "r"(out[0]));
  out[0] = result;
}
__global__ void assert_small(const int* in, int* out) {
  assert(in[threadIdx.x] < 100 && "small");
  out[threadIdx.x] = in[threadIdx.x];
}
__global__ void never_ends(volatile int* flag) {
  while (*flag == 0) {
  }
}
__device__ __noinline__ int recursive(int n, const int* in) {
  return n <= 1 ? in[n] : recursive(n - 1, in) + recursive(n - 2, in);
}
__global__ void recurse(const int* in, int* out) {
  out[threadIdx.x] = recursive(in[threadIdx.x], in);
}
__global__ void __launch_bounds__(64) bounded(int* out) { out[threadIdx.x] = 1; }

/// The message of the emulator, or nothing.
std::string message_of(const std::function<void()>& run) {
  try {
    run();
    require(cudaDeviceSynchronize());
    require(cudaGetLastError());
    return silence;
  } catch (const std::exception& error) {
    cudaGetLastError();
    return error.what();
  }
}

/// Words are alternatives, separated by |.
class Expecting {
 public:
  explicit Expecting(Report& report) : report_(report) {}
  void operator()(const std::string& name, const char* words, const std::function<void()>& run) {
    const std::string message = message_of(run);
    bool as_expected = std::string_view(words).empty() && message.empty();
    for (std::string_view rest = words; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find('|'));
      as_expected |= message.find(word) != std::string::npos;
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    }
    report_.expect(as_expected, name + ": '" + message + "' instead of '" + words + "'");
  }

 private:
  Report& report_;
};

struct Arrays {
  DeviceArray<float> in{std::vector<float>(256, 1.0f)};
  DeviceArray<float> out{256};
  DeviceArray<int> integers{std::vector<int>(64, 1)};
  DeviceArray<int> results{std::vector<int>(64, 0)};
};

void check_barriers(Expecting& expect, const Arrays& a) {
  const auto run = [&](auto kernel, int count = 256) {
    return [=, &a] { kernel<<<1, 256>>>(a.in.data(), count, a.out.data()); };
  };
  expect("reduction", silence, run(reduce<Reduction::right>));
  expect("missing __syncwarp", "race", run(reduce<Reduction::no_syncwarp>));
  expect("missing first barrier", "has not written|race", run(reduce<Reduction::no_barrier>));
  expect("divergent barrier", "can no longer reach", run(reduce<Reduction::divergent_barrier>));
  expect("early return", "can no longer reach", run(reduce<Reduction::early_return>, 200));
  expect("unwritten element", "has not written", run(reduce<Reduction::unwritten>));
  expect("shared overrun", "outside of the shared memory", run(reduce<Reduction::off_by_one>));
  const DeviceArray<int> same(std::vector<int>(64, 1));
  std::vector<int> signs(64, 1);
  signs[40] = -1;
  const DeviceArray<int> mixed(signs);
  expect("barrier in both branches, one taken", silence,
         [&] { two_barriers<<<1, 64>>>(same.data(), a.results.data()); });
  expect("barrier in both branches, both taken", "divergent barrier",
         [&] { two_barriers<<<1, 64>>>(mixed.data(), a.results.data()); });
}

void check_shuffles(Expecting& expect, const Arrays& a) {
  const auto run = [&](auto kernel) {
    return [=, &a] { kernel<<<1, 32>>>(a.in.data(), 20, a.out.data()); };
  };
  expect("shuffle", silence, run(shuffle<Shuffle::right>));
  expect("full mask in divergent code", "do not meet", run(shuffle<Shuffle::divergent>));
  expect("shuffle from outside of the mask", "does not take part",
         run(shuffle<Shuffle::outside_of_mask>));
  expect("shuffles at two places", "do not meet", run(shuffle<Shuffle::two_places>));
  expect("lane outside of its mask", "not in its own mask", run(shuffle<Shuffle::not_in_mask>));
  expect("lane that has returned", "has returned", run(shuffle<Shuffle::returned>));
}

void check_addresses(Expecting& expect, const Arrays& a) {
  const auto copy = [&](const float* in, int count, float* out) {
    return [=] { read_write<<<3, 128>>>(in, count, out); };
  };
  const std::vector<float> host(256);
  expect("copy", silence, copy(a.in.data(), 256, a.out.data()));
  expect("read past the end", "bytes behind an allocation of 1024 bytes",
         copy(a.in.data(), 257, a.out.data()));
  expect("write past the end", "bytes behind an allocation of 1024 bytes",
         copy(a.in.data() + 0, 200, a.out.data() + 100));
  expect("host memory", "not in device memory", copy(host.data(), 10, a.out.data()));
  expect("no memory", "not in device memory", copy(nullptr, 10, a.out.data()));
  float* freed = nullptr;
  require(cudaMalloc(&freed, 1024));
  require(cudaFree(freed));
  expect("freed memory", "not in device memory", copy(freed, 10, a.out.data()));
  expect("vectors", silence, [&] { copy_vectors<<<1, 32>>>(a.in.data(), a.out.data()); });
  const DeviceArray<float> two(2);
  expect("vector beyond the end", "past the end", [&] { write_vector<<<1, 1>>>(two.data()); });
  expect("misaligned vectors", "misaligned",
         [&] { copy_vectors<<<1, 32>>>(a.in.data() + 1, a.out.data()); });
  expect("dynamic shared memory", silence, [&] { use_dynamic<<<1, 32, 128>>>(32, a.out.data()); });
  expect("too little dynamic shared memory", "outside of the shared memory",
         [&] { use_dynamic<<<1, 32, 124>>>(32, a.out.data()); });
  expect("generic shared memory", silence,
         [&] { use_generic<<<1, 32, 128>>>(true, a.out.data()); });
  expect("too little generic shared memory", "outside of the shared memory",
         [&] { use_generic<<<1, 32, 124>>>(true, a.out.data()); });
  expect("local memory", silence,
         [&] { use_local<<<1, 32>>>(2, a.integers.data(), a.results.data()); });
  expect("local overrun", "outside of the local memory",
         [&] { use_local<<<1, 32>>>(100, a.integers.data(), a.results.data()); });
}

void check_races(Expecting& expect, const Arrays& a) {
  const DeviceArray<unsigned char> bytes(std::vector<unsigned char>(64, 1));
  const auto both = [&](const std::string& name, const char* words, auto launch) {
    expect(name, silence, [&] { launch(true); });
    expect(name + " without synchronisation", words, [&] { launch(false); });
  };
  both("exchange in a warp", "race",
       [&](bool s) { exchange<<<1, 32>>>(s, a.in.data(), a.out.data()); });
  both("exchange of bytes", "has not written|race",
       [&](bool s) { exchange_bytes<<<1, 64>>>(s, bytes.data(), bytes.data()); });
  both("write after read", "race", [&](bool s) { write_after_read<<<1, 64>>>(s, a.out.data()); });
  both("counts in shared memory", "race",
       [&](bool s) { count_in_shared<<<1, 64>>>(s, a.integers.data(), a.results.data()); });
  both("two threads write", "race", [&](bool s) { clash<<<1, 64>>>(s ? 100 : 0, a.out.data()); });
  both("two blocks write", "another block",
       [&](bool s) { clash_of_blocks<<<2, 32>>>(s ? 1 : 0, a.out.data()); });
  both("a block reads what another writes", "another block",
       [&](bool s) { neighbour_block<<<4, 32>>>(s ? 0 : 1, a.out.data()); });
  both("blocks pass values on", "another block", [&](bool s) {
    require(cudaMemset(a.results.data(), 0, 4));
    pass_on<<<3, 32>>>(s, a.results.data(), a.results.data() + 1, a.results.data() + 8);
  });
}

}  // namespace

void check_defects(Report& report) {
  Expecting expect(report);
  const Arrays a;
  using kvevict_emulation::ThreadOrder;
  const ThreadOrder usual = kvevict_emulation::settings().thread_order;
  for (const auto order : {ThreadOrder::forward, ThreadOrder::reverse, ThreadOrder::shuffled}) {
    kvevict_emulation::settings().thread_order = order;
    check_barriers(expect, a);
    check_shuffles(expect, a);
    check_races(expect, a);
  }
  kvevict_emulation::settings().thread_order = usual;
  check_addresses(expect, a);

  int* results = a.results.data();
  const auto* vectors = reinterpret_cast<const float4*>(a.in.data());
  float* out = a.out.data();
  expect("cp.async", silence, [=] { copy_without_wait<<<1, 32>>>(true, vectors, out); });
  cudaFuncAttributes attributes{};
  require(cudaFuncGetAttributes(&attributes, copy_without_wait));
  expect("cp.async without a wait", attributes.ptxVersion >= 80 ? "never waited" : silence,
         [=] { copy_without_wait<<<1, 32>>>(false, vectors, out); });
  expect("unknown instruction", "not supported: instruction 'add.f16x2'",
         [=] { unknown_instruction<<<1, 1>>>(reinterpret_cast<unsigned*>(results)); });
  const DeviceArray<int> large(std::vector<int>{1, 2, 300, 4});
  expect("assert", silence, [&] { assert_small<<<1, 2>>>(large.data(), results); });
  expect("failed assert", "assertion failed: in[threadIdx.x] < 100",
         [&] { assert_small<<<1, 4>>>(large.data(), results); });
  kvevict_ptx::ptx_settings().most_instructions = 1 << 22;
  require(cudaMemset(results, 0, 4));
  expect("endless loop", "does not come to an end", [=] { never_ends<<<1, 32>>>(results); });
  expect("recursion", "not supported: a recursive call",
         [&] { recurse<<<1, 2>>>(large.data(), results); });
  expect("launch bounds", silence, [=] { bounded<<<1, 64>>>(results); });
  expect("beyond the launch bounds", "cudaErrorInvalidValue", [=] { bounded<<<1, 65>>>(results); });
}

}  // namespace ptx_test
