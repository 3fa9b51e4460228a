// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "reference/rope.hpp"
#include "reference/types.hpp"

namespace kvevict_test::reference {

// Mean and covariance (1/n) of each head's queries from row `first` on.
QueryStats query_stats(const Heads& queries, std::size_t first);

// The same of queries before RoPE without the first skip_first, both mapped by the mean rotation Rb
// over positions next_position .. next_position + future - 1: Rb m and Rb S Rb^T.
QueryStats future_query_stats(const Heads& queries_pre_rope, std::size_t skip_first,
                              std::int64_t next_position, std::int64_t future, const Rope& rope);

}  // namespace kvevict_test::reference
