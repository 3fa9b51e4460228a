// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cpu_check.hpp"
#include "cuda_objects.cuh"
#include "options.hpp"
#include "synthetic_cache.cuh"

namespace cuda_evict {

/// Some heads of the cache as they were before eviction, from the first to the last of all layers,
/// on the host.
template <class T>
class HeadCheck {
 public:
  /// Waits for the stream.
  HeadCheck(cudaStream_t stream, const Options& options, const SyntheticCache<T>& cache)
      : rows_(options.rows), dim_(options.dim) {
    const std::int64_t heads = options.heads();
    const std::int64_t last = options.check_heads - 1;
    before_.dim = dim_;
    before_.query_heads = options.query_heads();
    before_.offsets.assign(1, 0);
    for (std::int64_t i = 0; i <= last; ++i) {
      checked_.push_back(last == 0 ? 0 : i * (heads - 1) / last);
    }
    auto next = checked_.begin();
    for (std::int64_t h = 0; h < heads; ++h) {
      const bool is_checked = next != checked_.end() && *next == h;
      before_.offsets.push_back(before_.offsets.back() + (is_checked ? rows_ : 0));
      if (!is_checked) continue;
      ++next;
      download(stream, head(cache.keys(), h), rows_ * dim_, before_.keys);
      download(stream, head(cache.values(), h), rows_ * dim_, before_.values);
    }
    download(stream, cache.queries(), before_.query_heads * options.queries * dim_,
             before_.queries);
  }

  const HostHeads<T>& before() const { return before_; }

  /// Rows of the checked heads whose key or value is not where compaction puts it: row j of a head
  /// is what row kept[j] was, bit by bit. Waits for the stream.
  std::int64_t misplaced_rows(cudaStream_t stream, const SyntheticCache<T>& cache,
                              const kvevict::Selection& kept) const {
    std::int64_t misplaced = 0;
    for (const std::int64_t h : checked_) {
      std::vector<T> keys;
      std::vector<T> values;
      download(stream, head(cache.keys(), h), kept.count(h) * dim_, keys);
      download(stream, head(cache.values(), h), kept.count(h) * dim_, values);
      const std::int64_t start = before_.offsets[static_cast<std::size_t>(h)];
      for (std::int64_t j = 0; j < kept.count(h); ++j) {
        const std::int64_t row = start + kept.head(h)[static_cast<std::size_t>(j)];
        if (!same_row(keys, j, before_.keys, row) || !same_row(values, j, before_.values, row)) {
          ++misplaced;
        }
      }
    }
    return misplaced;
  }

 private:
  const T* head(const T* all, std::int64_t h) const { return all + h * rows_ * dim_; }

  bool same_row(const std::vector<T>& a, std::int64_t i, const std::vector<T>& b,
                std::int64_t j) const {
    return std::memcmp(a.data() + i * dim_, b.data() + j * dim_,
                       static_cast<std::size_t>(dim_) * sizeof(T)) == 0;
  }

  std::int64_t rows_;
  std::int64_t dim_;
  std::vector<std::int64_t> checked_;
  HostHeads<T> before_;
};

}  // namespace cuda_evict
