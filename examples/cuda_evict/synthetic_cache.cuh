// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda_objects.cuh"
#include "kvevict/math/random.hpp"
#include "options.hpp"

namespace cuda_evict {

/// Element [head][row][channel] = u + offset(KV head, channel), u uniform with variance 1. What
/// `stream` numbers is random anew; the offsets, of variance 1/4, are the same for all streams, so
/// that the queries of a head point towards its keys and attention is not even.
template <class T>
__global__ void __launch_bounds__(256)
    fill_random(T* to, std::int64_t count, std::int64_t dim, std::int64_t rows_of_kv_head,
                std::uint64_t seed, std::uint64_t stream) {
  constexpr float width = 3.4641016f;  // sqrt(12)
  const std::int64_t step = std::int64_t{256} * gridDim.x;
  for (std::int64_t i = std::int64_t{256} * blockIdx.x + threadIdx.x; i < count; i += step) {
    const std::int64_t direction = i / (rows_of_kv_head * dim) * dim + i % dim;
    const float offset =
        kvevict::random_uniform(seed, 0, static_cast<std::uint64_t>(direction)) - 0.5f;
    const float noise = kvevict::random_uniform(seed, stream, static_cast<std::uint64_t>(i)) - 0.5f;
    to[i] = T(width * (noise + 0.5f * offset));
  }
}

/// The memory of an engine after a prompt: keys and values of all layers, and the last queries.
template <class T>
class SyntheticCache {
 public:
  SyntheticCache(cudaStream_t stream, const Options& options)
      : options_(options),
        res_(stream),
        keys_(options.elements()),
        values_(options.elements()),
        queries_(options.query_heads() * options.queries * options.dim) {
    fill(queries_, options.group * options.queries, 3);
    restore();
  }

  /// [layer][kv_head][token][dim]
  T* keys() const { return keys_.data(); }
  T* values() const { return values_.data(); }
  /// [layer][query_head][query][dim]
  const float* queries() const { return queries_.data(); }

  /// Writes keys and values as they were before any eviction.
  void restore() {
    fill(keys_, options_.rows, 1);
    fill(values_, options_.rows, 2);
  }

 private:
  template <class U>
  void fill(const DeviceBuffer<U>& to, std::int64_t rows_of_kv_head, std::uint64_t stream) {
    const std::int64_t blocks = std::min(kvevict::cuda::tiles_of(to.size(), 256),
                                         std::int64_t{16} * res_.limits().multiprocessors);
    kvevict::cuda::launch(res_, "fill_random", fill_random<U>, blocks, 256, 0, to.data(), to.size(),
                          options_.dim, rows_of_kv_head, options_.seed, stream);
  }

  Options options_;
  kvevict::CudaResources res_;
  DeviceBuffer<T> keys_;
  DeviceBuffer<T> values_;
  DeviceBuffer<float> queries_;
};

}  // namespace cuda_evict
