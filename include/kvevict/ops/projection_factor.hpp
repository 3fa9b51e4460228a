// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// factors[q] = upper triangular R_q [dim x dim] with R_q^T R_q = W_q^T W_q, W_q the columns q *
/// dim .. (q + 1) * dim of the output projection `w_o` [hidden][query_heads * dim]: the Cholesky
/// factor of the Gram matrix, in double. A Gram matrix that is only semidefinite gets 1e-12 of its
/// mean diagonal added. Throws numerical when it is not finite, for which a call on a device waits.
/// Cost hidden * dim^2 flops for each head, once for a model.
template <class R, class T>
void projection_factors(R& res, MatrixView<T, R::space> w_o,
                        MatrixBatchView<float, R::space> factors) {
  require(w_o.shape[1] == factors.shape[0] * factors.shape[1], "w_o.columns", w_o.shape[1],
          "query heads * dim =", factors.shape[0] * factors.shape[1]);
  projection_factors_impl(res, w_o, factors);
}

/// out[h] = factor of the sum over the group's query heads of R_q^T R_q: what all of a group's
/// heads together do to a value of KV head h. `factors` holds group * heads matrices. Throws
/// numerical when they are not finite; a call on a device does not wait, gives such a head NaN and
/// counts it among the failed factorizations of the report.
template <class R>
void stack_factors(R& res, MatrixBatchView<const float, R::space> factors,
                   MatrixBatchView<float, R::space> out) {
  const std::int64_t group =
      detail::require_group(factors.shape[0], out.shape[0], "output_projection.heads");
  detail::require_dim(factors.shape[1], out.shape[1], "output_projection.dim");
  stack_factors_impl(res, factors, group, out);
}

}  // namespace kvevict
