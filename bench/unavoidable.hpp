// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "bounds.hpp"
#include "shape.hpp"

namespace bench {

/// What work is stated in: the cache that it is done on, and some room for scores.
struct Load {
  Shape shape;
  const void* keys;
  const void* values;
  std::int64_t bytes;   ///< of all keys, and of all values
  float* scores;        ///< [kv_head][row]
  std::int64_t probes;  ///< probe queries of each query head

  double query_rows() const { return static_cast<double>(shape.query_heads() * shape.rows); }
  std::int64_t score_bytes() const { return 4 * shape.total_rows(); }
};

/// Rows that the measured products take at a time: where Eigen was found fastest, in single and in
/// double precision.
inline constexpr std::int64_t product_rows = 256;
inline constexpr std::int64_t gram_rows = 128;

/// Reading the keys or doing the arithmetic on them, whichever takes longer: they can overlap.
inline double read_keys(Bounds& bounds, const Load& load, double arithmetic = 0.0) {
  return std::max(bounds.read(load.keys, load.bytes), arithmetic);
}
inline double read_values(Bounds& bounds, const Load& load, double arithmetic = 0.0) {
  return std::max(bounds.read(load.values, load.bytes), arithmetic);
}

/// Products of every head's rows with `matrices` [dim x dim] matrices in all.
inline double square_products(Bounds& bounds, const Load& load, std::int64_t matrices) {
  const Shape& s = load.shape;
  return bounds.product(product_rows, s.dim, s.dim,
                        static_cast<double>(matrices * s.rows) / product_rows);
}

/// Weighted Gram matrices of every head's rows, `matrices` in all. In double: it is what the
/// library promises, for the sake of the inverse that follows.
inline double gram_products(Bounds& bounds, const Load& load, std::int64_t matrices) {
  const Shape& s = load.shape;
  return bounds.symmetric_product<double>(gram_rows, s.dim,
                                          static_cast<double>(matrices * s.rows) / gram_rows);
}

/// Logits of `queries` queries of each query head against all rows, the queries of a group in one
/// product.
inline double query_products(Bounds& bounds, const Load& load, std::int64_t queries) {
  const std::int64_t block = std::min(queries, window_queries);
  const double products = static_cast<double>(queries) / static_cast<double>(block) *
                          static_cast<double>(load.shape.total_rows()) / product_rows;
  return bounds.product(block * load.shape.group, load.shape.dim, product_rows, products);
}

/// Attention weights of `queries` queries of each query head: logits and their exponentials.
inline double attention(Bounds& bounds, const Load& load, std::int64_t queries) {
  return read_keys(bounds, load, query_products(bounds, load, queries)) +
         bounds.exponentials(static_cast<double>(queries) * load.query_rows());
}

/// The two products of `matrices` capacity matrices. The second cannot start before the first has
/// seen all rows of its head.
inline double capacity(Bounds& bounds, const Load& load, std::int64_t matrices) {
  return read_values(bounds, load, gram_products(bounds, load, matrices)) +
         read_values(bounds, load, square_products(bounds, load, matrices));
}

}  // namespace bench
