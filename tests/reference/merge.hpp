// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "reference/types.hpp"

namespace kvevict_test::reference {

// The values of a head after each evicted one went into the kept row whose key is most similar
// (MergingPress of NVIDIA kvpress, after D2O, arXiv 2406.13035). `fraction` of the evicted rows:
// those at or above the quantile with linear interpolation; an earlier row first where equal.
Matrix merged_into_similar(const Matrix& keys, const Matrix& values,
                           const std::vector<std::size_t>& kept, double threshold, double fraction);

// The values of a head after evicted ones went in equal parts into up to `span` kept rows behind
// them (CaM, ICML 2024). `draw(row)` in [0, 1) decides: it happens when it is below the
// attention of the row in units of the mean attention of those rows.
Matrix merged_into_following(const Matrix& values, const std::vector<std::size_t>& kept,
                             const std::vector<double>& attention, std::size_t span,
                             const std::function<double(std::size_t)>& draw);

}  // namespace kvevict_test::reference
