// SPDX-License-Identifier: Apache-2.0
#include "reference/query_stats.hpp"

#include <stdexcept>

#include "reference/linear.hpp"

namespace kvevict_test::reference {

QueryStats query_stats(const Heads& queries, std::size_t first) {
  QueryStats stats;
  for (const Matrix& head : queries) {
    if (first >= head.rows) throw std::invalid_argument("no queries are left for the statistics");
    const double count = static_cast<double>(head.rows - first);
    std::vector<double> mean(head.cols, 0.0);
    for (std::size_t i = first; i < head.rows; ++i) {
      for (std::size_t c = 0; c < head.cols; ++c) mean[c] += head(i, c) / count;
    }
    Matrix covariance(head.cols, head.cols);
    for (std::size_t i = first; i < head.rows; ++i) {
      for (std::size_t a = 0; a < head.cols; ++a) {
        for (std::size_t b = 0; b < head.cols; ++b) {
          covariance(a, b) += (head(i, a) - mean[a]) * (head(i, b) - mean[b]) / count;
        }
      }
    }
    stats.mean.push_back(mean);
    stats.covariance.push_back(covariance);
  }
  return stats;
}

QueryStats future_query_stats(const Heads& queries_pre_rope, std::size_t skip_first,
                              std::int64_t next_position, std::int64_t future, const Rope& rope) {
  QueryStats stats = query_stats(queries_pre_rope, skip_first);
  for (std::size_t h = 0; h < stats.mean.size(); ++h) {
    const Matrix rotation = mean_rotation(rope, next_position, future, stats.mean[h].size());
    stats.mean[h] = product(rotation, stats.mean[h]);
    stats.covariance[h] = product(product(rotation, stats.covariance[h]), transposed(rotation));
  }
  return stats;
}

}  // namespace kvevict_test::reference
