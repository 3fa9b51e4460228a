// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/cpu/lanes.hpp"
#include "kvevict/cpu/tile.hpp"

namespace kvevict::cpu {

// Products of the rows of a head with a block of queries or a small matrix, [row][query]. A
// library's matrix product copies both operands into its own order, and copying the keys takes as
// long as a product with the few queries of a window. With queries in the lanes only they are
// rearranged, once for a block; keys are read where they lie, a number at a time for all lanes.

/// Queries, or columns of a matrix, after rounding up to whole registers.
inline std::int64_t padded_queries(std::int64_t queries) {
  return (queries + lane_count - 1) / lane_count * lane_count;
}

/// Query i of a block, [dim], into its lane of `packed` [dim][padded], times `scale`.
inline void pack_query(const float* query, std::int64_t dim, float scale, std::int64_t i,
                       std::int64_t padded, float* packed) {
  for (std::int64_t c = 0; c < dim; ++c) packed[c * padded + i] = query[c] * scale;
}

/// Logits of `rows` keys and `vectors` registers of queries, all under way at once.
template <int rows, int vectors>
void multiply_block(const float* keys, std::int64_t key_stride, std::int64_t dim,
                    const float* packed, std::int64_t padded, float* logits) {
  FloatLanes sums[rows][vectors] = {};
  for (std::int64_t c = 0; c < dim; ++c, packed += padded) {
    FloatLanes queries[vectors];
    unroll<vectors>([&](auto v) { queries[v] = load_lanes(packed + v * lane_count); });
    unroll<rows>([&](auto r) {
      const float key = keys[r * key_stride + c];
      unroll<vectors>([&](auto v) { sums[r][v] += queries[v] * key; });
    });
  }
  unroll<rows>([&](auto r) {
    unroll<vectors>([&](auto v) { store_lanes(sums[r][v], logits + r * padded + v * lane_count); });
  });
}

/// Which entries of a packed matrix [dim][padded] can differ from 0.
enum class PackedShape {
  full,
  lower,  ///< channel >= column
  upper   ///< channel <= column
};

/// Products of all keys and `vectors` registers of columns.
template <int vectors>
void multiply_columns(const MatrixMap<const float>& keys, std::int64_t first_channel,
                      std::int64_t channels, const float* packed, std::int64_t padded,
                      float* products) {
  // More rows than eight are more streams than are prefetched.
  constexpr int rows = std::min(8, rows_at_once / vectors);
  const std::int64_t stride = keys.outerStride();
  const float* key = keys.data() + first_channel;
  packed += first_channel * padded;
  std::int64_t left = keys.rows();
  for (; left >= rows; left -= rows, key += rows * stride, products += rows * padded) {
    multiply_block<rows, vectors>(key, stride, channels, packed, padded, products);
  }
  for (; left > 0; --left, key += stride, products += padded) {
    multiply_block<1, vectors>(key, stride, channels, packed, padded, products);
  }
}

/// products [keys.rows][padded] = keys [rows x dim] . packed [dim x padded]. Of a triangular matrix
/// the zeros outside the diagonal's block are left out: at dim 128 a quarter of the work or more.
inline void multiply_packed(const MatrixMap<const float>& keys, const float* packed,
                            std::int64_t padded, PackedShape shape, float* products) {
  const std::int64_t dim = keys.cols();
  const auto multiply = [&]<int vectors>(std::int64_t at) {
    const std::int64_t first = shape == PackedShape::lower ? std::min(at, dim) : 0;
    const std::int64_t end =
        shape == PackedShape::upper ? std::min(at + vectors * lane_count, dim) : dim;
    multiply_columns<vectors>(keys, first, end - first, packed + at, padded, products + at);
  };
  std::int64_t at = 0;
  for (; at + vectors_at_once * lane_count <= padded; at += vectors_at_once * lane_count) {
    multiply.template operator()<vectors_at_once>(at);
  }
  for (; at < padded; at += lane_count) multiply.template operator()<1>(at);
}

/// Logits of a block of queries: the product with all of `packed`.
inline void multiply_queries(const MatrixMap<const float>& keys, const float* packed,
                             std::int64_t padded, float* logits) {
  multiply_packed(keys, packed, padded, PackedShape::full, logits);
}

}  // namespace kvevict::cpu
