// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <tuple>
#include <vector>

#include "kvevict/kvevict.hpp"
#include "shape.hpp"

namespace bench {

/// Numbers at an address as engines give caches: aligned to 256 bytes, so that no row straddles
/// cache lines.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t size) : size_(size), data_(allocate(size)) {}

  T* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const { return size_ * static_cast<std::int64_t>(sizeof(T)); }

 private:
  static constexpr auto alignment = std::align_val_t{256};
  struct Release {
    void operator()(T* p) const { ::operator delete(p, alignment); }
  };
  static T* allocate(std::int64_t size) {
    return new (::operator new(static_cast<std::size_t>(size) * sizeof(T), alignment))
        T[static_cast<std::size_t>(size)]();
  }

  std::int64_t size_;
  std::unique_ptr<T[], Release> data_;
};

/// Uniform random numbers of mean 0 and variance 1. Streams of one seed are independent.
template <class T>
Buffer<T> random_numbers(std::int64_t count, std::uint64_t stream) {
  Buffer<T> numbers(count);
  const float width = std::sqrt(12.0f);
  for (std::int64_t i = 0; i < count; ++i) {
    const float uniform = kvevict::random_uniform(seed, stream, static_cast<std::uint64_t>(i));
    numbers.data()[i] = T(width * (uniform - 0.5f));
  }
  return numbers;
}

/// A cache of random keys and values in storage type T, and all evidence that policies ask for.
template <class T>
class Inputs {
 public:
  explicit Inputs(const Shape& shape)
      : shape_(shape),
        keys_(random_numbers<T>(shape.elements(), 1)),
        values_(random_numbers<T>(shape.elements(), 2)),
        queries_(random_numbers<float>(shape.query_heads() * context_queries * shape.dim, 3)) {
    kvevict::CpuResources res;
    const kvevict::Rope rope;
    const auto next = static_cast<std::int64_t>(shape.rows);
    stats_ = kvevict::estimate_query_stats(
        res, queries(), rope, {.next_position = next, .covariance = kvevict::Covariance::full});
    probes_ = kvevict::future_probes(res, queries(), rope, {.next_position = next});
  }

  const Shape& shape() const { return shape_; }

  kvevict::KvView<T> cache() const {
    return kvevict::KvView<T>::hnd(keys_.data(), values_.data(), shape_.heads, shape_.rows,
                                   shape_.dim);
  }
  const Buffer<T>& keys() const { return keys_; }
  const Buffer<T>& values() const { return values_; }

  /// The last queries of the context.
  kvevict::QueryWindow<> window() const {
    return {queries().last(window_queries),
            kvevict::QueryPositions<>::consecutive(static_cast<int>(shape_.rows - window_queries))};
  }
  kvevict::QueriesView<> queries() const {
    return kvevict::QueriesView<>::packed(queries_.data(), shape_.query_heads(), context_queries,
                                          shape_.dim);
  }
  kvevict::QueryStatsView<> stats() const { return stats_->view(); }
  kvevict::ProbeQueries<> probes() const { return probes_->view(); }

 private:
  static constexpr std::int64_t context_queries = 256;

  Shape shape_;
  Buffer<T> keys_;
  Buffer<T> values_;
  Buffer<float> queries_;
  std::optional<kvevict::QueryStats> stats_;
  std::optional<kvevict::Probes> probes_;
};

/// Holds the inputs that were asked for last: benchmarks of one shape and type follow each other,
/// and the largest caches should not be in memory together.
class InputStore {
 public:
  template <class T>
  const Inputs<T>& get(const Shape& shape) {
    auto& slot = std::get<std::unique_ptr<const Inputs<T>>>(slots_);
    if (!slot || !(slot->shape() == shape)) {
      slots_ = {};
      slot = std::make_unique<const Inputs<T>>(shape);
    }
    return *slot;
  }

 private:
  std::tuple<std::unique_ptr<const Inputs<float>>, std::unique_ptr<const Inputs<kvevict::half>>,
             std::unique_ptr<const Inputs<kvevict::bfloat16>>>
      slots_;
};

}  // namespace bench
