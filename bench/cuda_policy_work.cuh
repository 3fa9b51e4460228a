// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cuda_work.cuh"

namespace bench {

/// What work is stated in.
struct CudaLoad {
  Shape shape;
  std::int64_t element_bytes;  ///< of a cached number
  std::int64_t probes;         ///< probe queries of each query head

  double rows() const { return static_cast<double>(shape.total_rows()); }
  double query_rows() const { return static_cast<double>(shape.query_heads() * shape.rows); }
  double dim() const { return static_cast<double>(shape.dim); }
  /// Bytes of all keys, and of all values.
  double bytes() const { return static_cast<double>(shape.elements() * element_bytes); }
  double score_bytes() const { return 4.0 * rows(); }
  double query_score_bytes() const { return 4.0 * query_rows(); }
};

/// A read of keys or values with so many flops for each of their numbers.
inline Pass read_pass(const CudaLoad& l, double flops_per_number) {
  return {.read = l.bytes(), .fp32 = flops_per_number * l.rows() * l.dim()};
}
inline Pass writing_scores(const CudaLoad& l, Pass pass) {
  pass.write += l.score_bytes();
  return pass;
}

/// Weights of `queries` queries of each query head: products with all keys, and exponentials.
inline Pass attention_pass(const CudaLoad& l, std::int64_t queries) {
  const double weights = static_cast<double>(queries) * l.query_rows();
  return {.read = l.bytes(), .fp32 = 2.0 * weights * l.dim(), .exponentials = weights};
}

/// Logits of the mean query of each query head, one exponential each, and the diagonal quadratic
/// form when asked for.
inline Pass mean_query_pass(const CudaLoad& l, bool diagonal) {
  const double products = l.query_rows() * l.dim();
  return {.read = l.bytes(),
          .fp32 = (diagonal ? 4.0 : 2.0) * products + (diagonal ? l.rows() * l.dim() : 0.0),
          .exponentials = l.query_rows()};
}

/// Gram matrices and leverages of `matrices` capacity matrices in all, in fp32: half of a symmetric
/// product each, since the factor of the inverse is a triangle.
inline Pass gram_pass(const CudaLoad& l, std::int64_t matrices) {
  const double rows = static_cast<double>(matrices * l.shape.rows);
  return {.read = l.bytes(), .fp32 = rows * l.dim() * l.dim()};
}
inline Pass leverage_pass(const CudaLoad& l, std::int64_t matrices) {
  const double rows = static_cast<double>(matrices * l.shape.rows);
  return writing_scores(l, {.read = l.bytes(), .fp32 = rows * l.dim() * l.dim()});
}

}  // namespace bench
