// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// What a softmax over the rows of a head leaves behind, with a = softmax(z).
enum class SoftmaxOutput {
  probability,      ///< a
  log_probability,  ///< log a = z - logsumexp(z): no underflow, so saturated heads keep their order
  jacobian_diagonal,  ///< a (1 - a), the diagonal of the softmax Jacobian diag(a) - a a^T
  exponential         ///< exp(z - max z): the largest is 1, no normaliser
};

/// In place on every head of `scores`: the softmax over its rows from `skip_first` on (heads are
/// independent). The first `skip_first` rows take no part and get 0 (log: -infinity). The maximum
/// is subtracted; sums are accumulated in double; 1 - a is the sum of the other exponentials over
/// the whole sum, exact also where a rounds to 1.
/// A head whose logits are all -infinity gets 0 throughout (log: -infinity), one with a NaN or
/// +infinity gets NaN.
template <class R>
void softmax(R& res, ScoreView<R::space> scores, std::int64_t skip_first, SoftmaxOutput output) {
  require(skip_first >= 0, "skip_first", skip_first, ">=", 0);
  softmax_impl(res, scores, skip_first, output);
}

}  // namespace kvevict
