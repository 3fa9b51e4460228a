// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/types.hpp"

namespace kvevict_test {

// Every element times a factor.
reference::Heads scaled(reference::Heads heads, double factor);

// The listed rows of a matrix, in that order; a row may appear more than once.
reference::Matrix rows_of(const reference::Matrix& a, const std::vector<std::size_t>& rows);

// The same inputs with the listed rows of one KV head's keys (also before RoPE) and values in place
// of all of them.
// Positions, where they are given, stay those of the first rows.
reference::Inputs with_rows(reference::Inputs inputs, std::size_t kv_head,
                            const std::vector<std::size_t>& rows);

// What remains when only one KV head is given: its rows, and its group's share of all evidence.
reference::Inputs one_head(const reference::Inputs& inputs, std::size_t kv_head);

// A random orthogonal matrix [dim, dim]: a product of plane rotations.
reference::Matrix random_rotation(std::size_t dim, std::uint64_t seed);

// Every row r of every head replaced by rotation * r.
reference::Heads rotated(const reference::Heads& heads, const reference::Matrix& rotation);

}  // namespace kvevict_test
