// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "kvevict/core/selection.hpp"

namespace kvevict_test {

// A selection of these row numbers, head by head, valid or not.
inline kvevict::Selection selection_of(const std::vector<std::vector<std::int32_t>>& heads) {
  std::vector<std::int64_t> counts;
  std::vector<std::int32_t> rows;
  for (const auto& head : heads) {
    counts.push_back(static_cast<std::int64_t>(head.size()));
    rows.insert(rows.end(), head.begin(), head.end());
  }
  kvevict::Selection selection;
  // Without it g++ 12 warns of writes beyond the new object's single offset, which do not happen.
  selection.reserve(static_cast<std::int64_t>(counts.size()),
                    static_cast<std::int64_t>(rows.size()));
  std::int32_t* out = selection.reshape(counts);
  for (const std::int32_t row : rows) *out++ = row;
  return selection;
}

// The rows [first, first + count).
inline std::vector<std::int32_t> rows_from(std::int32_t first, std::int32_t count) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

// The row numbers of a selection, head by head.
inline std::vector<std::vector<std::int32_t>> rows_of(const kvevict::Selection& kept) {
  std::vector<std::vector<std::int32_t>> heads;
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    heads.emplace_back(kept.head(h).begin(), kept.head(h).end());
  }
  return heads;
}

}  // namespace kvevict_test
