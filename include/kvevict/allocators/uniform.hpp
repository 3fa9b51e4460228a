// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/core/concepts.hpp"

namespace kvevict {

/// Every head keeps its own share of the budget. Throws a budget error when a head's protected rows
/// exceed its share.
struct UniformBudget {
  template <class R>
  void allocate(R&, const AllocationInput<R::space>& input, std::int64_t* counts) const {
    for (std::int64_t h = 0; h < input.scores.layout.heads(); ++h) counts[h] = input.shares[h];
  }

  friend bool operator==(const UniformBudget&, const UniformBudget&) = default;
};

}  // namespace kvevict
