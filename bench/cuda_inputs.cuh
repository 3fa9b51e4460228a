// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>

#include "kvevict/cuda.cuh"
#include "shape.hpp"

namespace bench {

inline constexpr auto device = kvevict::MemorySpace::device;

namespace kernels {

/// Uniform random numbers of mean 0 and variance 1.
template <class T>
__global__ void __launch_bounds__(256)
    fill_random(T* to, std::int64_t count, std::uint64_t stream) {
  const std::int64_t step = std::int64_t{256} * gridDim.x;
  for (std::int64_t i = std::int64_t{256} * blockIdx.x + threadIdx.x; i < count; i += step) {
    const float uniform = kvevict::random_uniform(seed, stream, static_cast<std::uint64_t>(i));
    to[i] = T(3.4641016f * (uniform - 0.5f));
  }
}

}  // namespace kernels

/// Numbers in device memory. Uninitialised at first.
template <class T>
class CudaBuffer {
 public:
  CudaBuffer(kvevict::CudaResources& res, std::int64_t size) { array_.resize(res.stream(), size); }

  T* data() const { return array_.data(); }
  std::int64_t size() const { return array_.size(); }
  std::int64_t bytes() const { return size() * static_cast<std::int64_t>(sizeof(T)); }

 private:
  kvevict::cuda::DeviceArray<T> array_;
};

/// Streams of one seed are independent.
template <class T>
CudaBuffer<T> cuda_random_numbers(kvevict::CudaResources& res, std::int64_t count,
                                  std::uint64_t stream) {
  CudaBuffer<T> numbers(res, count);
  const std::int64_t blocks = std::min(kvevict::cuda::tiles_of(count, 256),
                                       std::int64_t{16} * res.limits().multiprocessors);
  kvevict::cuda::launch(res, "fill_random", kernels::fill_random<T>, blocks, 256, 0, numbers.data(),
                        count, stream);
  return numbers;
}

/// A cache of random keys and values in storage type T, and all evidence that policies ask for.
template <class T>
class CudaInputs {
 public:
  CudaInputs(kvevict::CudaResources& res, const Shape& shape)
      : shape_(shape),
        keys_(cuda_random_numbers<T>(res, shape.elements(), 1)),
        values_(cuda_random_numbers<T>(res, shape.elements(), 2)),
        queries_(cuda_random_numbers<float>(
            res, shape.query_heads() * context_queries(shape) * shape.dim, 3)),
        stats_(kvevict::estimate_query_stats(
            res, queries(), kvevict::Rope{},
            {.next_position = shape.rows, .covariance = kvevict::Covariance::full})),
        probes_(kvevict::future_probes(res, queries(), kvevict::Rope{},
                                       {.next_position = shape.rows})) {}

  const Shape& shape() const { return shape_; }

  kvevict::KvView<T, device> cache() const {
    return kvevict::KvView<T, device>::hnd(keys_.data(), values_.data(), shape_.heads, shape_.rows,
                                           shape_.dim);
  }
  const CudaBuffer<T>& keys() const { return keys_; }
  const CudaBuffer<T>& values() const { return values_; }

  kvevict::QueriesView<device> queries() const {
    return kvevict::QueriesView<device>::packed(queries_.data(), shape_.query_heads(),
                                                context_queries(shape_), shape_.dim);
  }
  /// The last queries of the context.
  kvevict::QueryWindow<device> window() const {
    return {queries().last(window_queries),
            kvevict::QueryPositions<device>::consecutive(
                static_cast<std::int32_t>(shape_.rows - window_queries))};
  }
  kvevict::QueryStatsView<device> stats() const { return stats_.view(); }
  kvevict::ProbeQueries<device> probes() const { return probes_.view(); }

 private:
  static std::int64_t context_queries(const Shape& shape) {
    return std::min<std::int64_t>(shape.rows, 256);
  }

  Shape shape_;
  CudaBuffer<T> keys_;
  CudaBuffer<T> values_;
  CudaBuffer<float> queries_;
  kvevict::BasicQueryStats<device> stats_;
  kvevict::BasicProbes<device> probes_;
};

/// Holds the inputs that were asked for last: benchmarks of one shape and type follow each other,
/// and the largest caches should not be in memory together.
class CudaInputStore {
 public:
  explicit CudaInputStore(kvevict::CudaResources& res) : res_(res) {}

  template <class T>
  const CudaInputs<T>& get(const Shape& shape) {
    auto& slot = std::get<std::unique_ptr<const CudaInputs<T>>>(slots_);
    if (!slot || !(slot->shape() == shape)) {
      slots_ = {};
      slot = std::make_unique<const CudaInputs<T>>(res_, shape);
    }
    return *slot;
  }

 private:
  kvevict::CudaResources& res_;
  std::tuple<std::unique_ptr<const CudaInputs<float>>,
             std::unique_ptr<const CudaInputs<kvevict::half>>,
             std::unique_ptr<const CudaInputs<kvevict::bfloat16>>>
      slots_;
};

}  // namespace bench
