// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kvevict/any_policy.hpp"
#include "kvevict/core/budget.hpp"
#include "kvevict/core/selection.hpp"
#include "kvevict/math/rope.hpp"

namespace cuda_evict {

/// Some heads of a cache as they were before eviction, copied from the device.
template <class T>
struct HostHeads {
  std::vector<std::int64_t> offsets;  ///< [heads + 1] rows of each head, none for heads not copied
  std::vector<T> keys;                ///< [sum of rows][dim]
  std::vector<T> values;
  std::vector<float> queries;  ///< [query_head][query][dim], all of them
  std::int64_t query_heads = 0;
  std::int64_t dim = 0;

  std::int64_t heads() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
};

/// What a device and the CPU kept of the same rows.
struct Comparison {
  std::int64_t kept = 0;       ///< rows that the CPU keeps
  std::int64_t exchanged = 0;  ///< rows that only one of both keeps
  std::int64_t wrong = 0;  ///< those whose scores on the CPU are no tie with the lowest kept one
};

/// Evicts the copied heads on the CPU and compares with what the device kept of them. Kept sets may
/// differ in rows that score the same within the accuracy that the backends promise each other. Not
/// a CUDA source, since Eigen must not be seen by nvcc. Defined for float, half and bfloat16.
template <class T>
Comparison compare_with_cpu(const HostHeads<T>& heads, const kvevict::AnyPolicy& policy,
                            const kvevict::Rope& rope, const kvevict::Budget& budget,
                            const kvevict::Protect& protect, const kvevict::Selection& on_device);

}  // namespace cuda_evict
