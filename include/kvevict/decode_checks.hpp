// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kvevict/core/kv_view.hpp"

namespace kvevict {

/// The heads that one DecodeEvictor serves.
struct DecodeShape {
  std::int64_t kv_heads = 0;     ///< layers x KV heads, as in the cache views
  std::int64_t query_heads = 0;  ///< layers x query heads
  std::int64_t dim = 0;          ///< of keys and queries
};

// What a DecodeEvictor checks of what it is shown against what it was told.
namespace detail {

/// The cache must hold the `rows` [kv_heads] that it was told of, and `added` rows more, and store
/// its positions once rows of `seen` tokens were dropped.
template <class T, MemorySpace S>
void require_told(const KvView<T, S>& cache, const DecodeShape& shape,
                  std::span<const std::int64_t> rows, std::int64_t added, std::int64_t seen) {
  require(cache.heads() == shape.kv_heads, "cache.heads", cache.heads(), "equal to kv_heads,",
          shape.kv_heads);
  require(cache.keys().dim() == shape.dim, "cache.keys.dim", cache.keys().dim(), "equal to dim,",
          shape.dim);
  const RowLayout<> layout = cache.layout().host();
  for (std::int64_t h = 0; h < layout.heads(); ++h) {
    const std::int64_t told = rows[static_cast<std::size_t>(h)] + added;
    require_for_head(layout.rows(h) == told, "cache.rows", h, layout.rows(h),
                     "those that it was told of,", told);
  }
  require(cache.positions().stored() || seen == *std::min_element(rows.begin(), rows.end()),
          "cache.positions", "consecutive", "stored, since rows were dropped");
}

/// A selection must be of the `rows` [kv_heads] that are held.
template <class Kept>
void require_told(const Kept& kept, const DecodeShape& shape, std::span<const std::int64_t> rows) {
  require(kept.heads() == shape.kv_heads, "kept.heads", kept.heads(), "equal to kv_heads,",
          shape.kv_heads);
  for (std::int64_t h = 0; h < shape.kv_heads; ++h) {
    const std::int64_t held = rows[static_cast<std::size_t>(h)];
    require_for_head(kept.count(h) <= held, "kept rows", h, kept.count(h), "at most those held,",
                     held);
  }
}

/// The `tokens` rows behind those that were told must stand at `seen` and behind it.
template <class T>
void require_new_positions(const KvView<T>& cache, std::span<const std::int64_t> rows,
                           std::int64_t tokens, std::int64_t seen) {
  for (std::int64_t h = 0; h < cache.heads(); ++h) {
    const auto positions = cache.positions().row(h, cache.layout());
    const std::int64_t told = rows[static_cast<std::size_t>(h)];
    for (std::int64_t i = 0; i < tokens; ++i) {
      require_for_head(positions[told + i] == seen + i, "position of a new row", h,
                       positions[told + i], "that of its token,", seen + i);
    }
  }
}

}  // namespace detail

}  // namespace kvevict
