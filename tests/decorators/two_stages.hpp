// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/selection.hpp"
#include "reference/types.hpp"

namespace kvevict_test {

// |W v|_1 of the values of a head, mean over the query heads of its group, in double. `w` is
// [query_head][outputs][dim].
inline std::vector<double> projected_sums(const reference::Matrix& values,
                                          const std::vector<float>& w, std::size_t first_query_head,
                                          std::size_t group, std::size_t outputs) {
  std::vector<double> sizes(values.rows, 0.0);
  for (std::size_t i = 0; i < values.rows; ++i) {
    for (std::size_t q = first_query_head; q < first_query_head + group; ++q) {
      for (std::size_t o = 0; o < outputs; ++o) {
        double product = 0.0;
        for (std::size_t c = 0; c < values.cols; ++c) {
          product += static_cast<double>(w[(q * outputs + o) * values.cols + c]) * values(i, c);
        }
        sizes[i] += std::abs(product) / static_cast<double>(group);
      }
    }
  }
  return sizes;
}

// What CriticalKV keeps of a head, ascending: half of `count` rows (rounded down) by the score,
// protected rows before all others, then rows by (score + 1e-4) * size; protected rows anyway.
inline reference::Rows two_stage_rows(const std::vector<float>& scores,
                                      const std::vector<double>& sizes, const reference::Rows& held,
                                      std::size_t count) {
  const auto is_in = [](const reference::Rows& rows, std::size_t row) {
    return std::find(rows.begin(), rows.end(), row) != rows.end();
  };
  reference::Rows kept = held;
  for (const std::size_t row : reference::selection_order({scores.begin(), scores.end()})) {
    if (kept.size() >= std::max(held.size(), count / 2)) break;
    if (!is_in(kept, row)) kept.push_back(row);
  }
  std::vector<double> weighted;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    weighted.push_back((static_cast<double>(scores[i]) + 1e-4) * sizes[i]);
  }
  for (const std::size_t row : reference::selection_order(weighted)) {
    if (kept.size() == count) break;
    if (!is_in(kept, row)) kept.push_back(row);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace kvevict_test
