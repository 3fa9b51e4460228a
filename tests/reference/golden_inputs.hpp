// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "reference/rope.hpp"
#include "reference/types.hpp"
#include "support/golden.hpp"

namespace kvevict_test::reference {

// An array [head, row, dim] of the reference data as one matrix per head.
Heads golden_heads(const GoldenData& data, const std::string& id);

// The rotation that an entry's evidence names (rope_theta, rope_pairing) for vectors of `dim`.
Rope golden_rope(const Pairs& evidence, std::size_t dim);

// What the policy of a score or kept entry was given: keys, values and the evidence in its line
// (statistics are computed here, in double), the output projection if the parameters ask for it.
Inputs golden_inputs(const GoldenData& data, const GoldenEntry& entry);

}  // namespace kvevict_test::reference
