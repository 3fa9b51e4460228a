// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/evict.hpp"

namespace kvevict {

/// Bytes of workspace that `evict_into` with these arguments carves at most, for a caller who
/// provides the buffer (add 256 for one that is not aligned to 256). The same code as the
/// computation, run over a counting workspace: nothing is computed or read. Throws what evict_into
/// throws for its arguments.
template <class R, class P, class T, class A = UniformBudget>
std::int64_t workspace_bytes(const R& res, const P& policy, const KvView<T, R::space>& cache,
                             const Evidence<R::space>& evidence, const Budget& budget,
                             const Protect& protect = {}, const A& allocator = {}) {
  R counting = R::counting(res);
  typename R::selection_type unused;
  evict_into(counting, unused, policy, cache, evidence, budget, protect, allocator);
  return counting.workspace().peak_bytes();
}

}  // namespace kvevict
