// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <kvevict/cuda.cuh>
#include <vector>

// The smallest keys stay: rows 0 to 3.
bool keeps_smallest() {
  constexpr std::int64_t rows = 8;
  constexpr std::int64_t dim = 4;
  std::vector<float> keys;
  for (std::int64_t row = 1; row <= rows; ++row) {
    keys.insert(keys.end(), dim, static_cast<float>(row));
  }
  kvevict::CudaResources res;
  float* memory = nullptr;
  const std::size_t bytes = keys.size() * sizeof(float);
  if (cudaMalloc(&memory, 2 * bytes) != cudaSuccess) return false;
  cudaMemcpy(memory, keys.data(), bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(memory + keys.size(), keys.data(), bytes, cudaMemcpyHostToDevice);
  const auto cache = kvevict::KvView<float, kvevict::MemorySpace::device>::hnd(
      memory, memory + keys.size(), 1, rows, dim);
  const auto kept =
      kvevict::evict(res, kvevict::KNorm{}, cache, {}, kvevict::Budget::evict_ratio(0.5));
  kvevict::compact(res, kept, cache);
  const kvevict::Selection here = kept.download(res.stream());
  cudaFree(memory);
  return here.total() == 4 && here.head(0).back() == 3;
}

int main() {
  try {
    const bool right = keeps_smallest();
    std::printf("kvevict %s: %s\n", kvevict::version_string, right ? "works" : "WRONG RESULT");
    return right ? 0 : 1;
  } catch (const kvevict::Error& error) {
    // Without a GPU this is how far it goes.
    const bool expected = error.kind() == kvevict::ErrorKind::backend;
    std::printf("kvevict %s: %s\n", kvevict::version_string, error.what());
    return expected ? 0 : 1;
  }
}
