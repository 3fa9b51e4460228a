// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "reference/types.hpp"

namespace kvevict_test::reference {

// Rows from best to worst: score descending, then position ascending; NaN below everything; the two
// zeros are equal.
Rows selection_order(const std::vector<double>& scores);

// The `count` rows that selection keeps, ascending: protected rows first, then by the order. Throws
// std::invalid_argument when count is below the number of protected rows or above all rows.
Rows select_top(const std::vector<double>& scores, std::size_t count, const Rows& protected_rows);

// Rows at positions below `sinks`, the last `recent` rows and the rows at positions
// [first, second) of each span; ascending, each once.
Rows protected_rows(const Positions& positions, std::int64_t sinks, std::int64_t recent,
                    const std::vector<std::pair<std::int64_t, std::int64_t>>& spans = {});

// floor(rows (1 - ratio)) with the ratio as the shortest decimal that reads back as it, exact.
std::int64_t exact_kept_rows(std::int64_t rows, double ratio);

// The arithmetic of kvpress: rows * (1 - ratio) in double, truncated, at least 1 (of a head that
// has rows) for a ratio below 1, 0 from there on.
std::int64_t reference_kept_rows(std::int64_t rows, double ratio);

// All heads ranked together: each head keeps its protected rows and at least `floor` rows (or all
// it has), then the best of what is left over all heads survive while their head has fewer than
// `cap` rows, `total` rows in all. Ties by head, then by position. Throws std::invalid_argument
// when the floors do not fit or the caps cannot hold the total.
std::vector<Rows> select_global(const Scores& scores, std::size_t total,
                                const std::vector<Rows>& protected_rows, std::size_t floor,
                                std::size_t cap);

}  // namespace kvevict_test::reference
