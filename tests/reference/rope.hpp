// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "reference/types.hpp"

namespace kvevict_test::reference {

// Which channels turn together: (j, j + n/2) or (2j, 2j + 1), n the number of rotated channels.
enum class Pairing { half, adjacent };

// Rotary position embedding: pair j turns by position * frequencies[j] and is scaled by
// attention_factor; channels beyond the 2 * frequencies.size() first stay as they are.
struct Rope {
  std::vector<double> frequencies;
  Pairing pairing = Pairing::half;
  double attention_factor = 1;
};

// theta^(-2j / rotary_dim), j = 0 .. rotary_dim/2 - 1.
std::vector<double> rope_frequencies(double theta, std::size_t rotary_dim);

// The rotation at a position as a matrix [dim, dim].
Matrix rotation_matrix(const Rope& rope, std::int64_t position, std::size_t dim);

// Mean of the rotation matrices at first .. first + count - 1.
Matrix mean_rotation(const Rope& rope, std::int64_t first, std::int64_t count, std::size_t dim);

// Row i of x turned to positions[i].
Matrix rotated(const Matrix& x, const Positions& positions, const Rope& rope);

// Probe queries: the given rows of each head's queries before RoPE, turned to the given positions.
Heads future_probes(const Heads& queries_pre_rope, const Rows& rows, const Positions& positions,
                    const Rope& rope);

}  // namespace kvevict_test::reference
