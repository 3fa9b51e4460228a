// SPDX-License-Identifier: Apache-2.0
#include "reference/types.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace kvevict_test::reference {

std::size_t Inputs::query_heads() const {
  if (!queries.empty()) return queries.size();
  if (!probes.empty()) return probes.size();
  return stats.mean.empty() ? kv_heads() : stats.mean.size();
}

Positions Inputs::positions_of_rows(std::size_t kv_head) const {
  if (!row_positions.empty()) return row_positions[kv_head];
  Positions positions(keys[kv_head].rows);
  std::iota(positions.begin(), positions.end(), std::int64_t{0});
  return positions;
}

Positions Inputs::positions_of_queries() const {
  if (!query_positions.empty()) return query_positions;
  const Positions rows = positions_of_rows(0);
  Positions positions(queries.at(0).rows);
  const std::int64_t last = rows.empty() ? 0 : rows.back();
  std::iota(positions.begin(), positions.end(),
            last + 1 - static_cast<std::int64_t>(positions.size()));
  return positions;
}

std::vector<float> packed_float(const Heads& heads) {
  std::vector<float> out;
  for (const Matrix& head : heads) {
    for (const double value : head.data) out.push_back(static_cast<float>(value));
  }
  return out;
}

std::vector<std::int64_t> row_offsets(const Heads& heads) {
  std::vector<std::int64_t> offsets{0};
  for (const Matrix& head : heads) {
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(head.rows));
  }
  return offsets;
}

std::vector<double> reduce(const std::vector<std::vector<double>>& per_head, Reduction reduction) {
  if (per_head.empty()) throw std::invalid_argument("no query heads to reduce");
  std::vector<double> out = per_head.front();
  for (std::size_t head = 1; head < per_head.size(); ++head) {
    for (std::size_t row = 0; row < out.size(); ++row) {
      const double value = per_head[head][row];
      out[row] = reduction == Reduction::max ? std::max(out[row], value) : out[row] + value;
    }
  }
  if (reduction == Reduction::mean) {
    for (double& value : out) value /= static_cast<double>(per_head.size());
  }
  return out;
}

}  // namespace kvevict_test::reference
