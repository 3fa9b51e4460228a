// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kvevict/core/queries.hpp"
#include "kvevict/ops/attention_statistic.hpp"
#include "reference/attention.hpp"
#include "support/random.hpp"

namespace kvevict_test {

// Random queries [query_head][query][dim] of an element type, and the same in double.
template <class Q>
struct QueriesCase {
  std::int64_t heads;
  std::int64_t count;
  std::int64_t dim;
  std::vector<Q> data;
  reference::Heads exact;

  QueriesCase(std::int64_t query_heads, std::int64_t queries, std::int64_t d, std::uint64_t seed,
              double size = 1.0)
      : heads(query_heads), count(queries), dim(d) {
    const std::vector<float> values = random_values(Shape::normal, heads * count * dim, seed);
    for (const float value : values) {
      data.push_back(static_cast<Q>(static_cast<float>(value * size)));
    }
    std::vector<double> widened;
    for (const Q& value : data) widened.push_back(static_cast<double>(static_cast<float>(value)));
    exact = reference::split_heads(widened, static_cast<std::size_t>(heads),
                                   static_cast<std::size_t>(count), static_cast<std::size_t>(dim));
  }
  kvevict::QueriesView<> view() const {
    return kvevict::QueriesView<>::packed(data.data(), heads, count, dim);
  }
};

// A statistic of attention weights p [query, row], from its definition.
inline std::vector<double> statistic_of(const reference::Matrix& p,
                                        kvevict::AttentionStatistic statistic, double decay) {
  using kvevict::AttentionStatistic;
  std::vector<double> out(p.cols, 0.0);
  const auto n = static_cast<double>(p.rows);
  for (std::size_t j = 0; j < p.cols; ++j) {
    for (std::size_t i = 0; i < p.rows; ++i) {
      switch (statistic) {
        case AttentionStatistic::sum:
          out[j] += std::pow(decay, n - 1 - static_cast<double>(i)) * p(i, j);
          break;
        case AttentionStatistic::mean:
          out[j] += p(i, j) / n;
          break;
        case AttentionStatistic::root_mean_square:
          out[j] += p(i, j) * p(i, j) / n;
          break;
        case AttentionStatistic::maximum:
          out[j] = std::max(out[j], p(i, j));
          break;
        case AttentionStatistic::mean_jacobian_diagonal:
          out[j] += p(i, j) * (1 - p(i, j)) / n;
          break;
      }
    }
    if (statistic == AttentionStatistic::root_mean_square) out[j] = std::sqrt(out[j]);
  }
  return out;
}

inline constexpr kvevict::AttentionStatistic all_statistics[] = {
    kvevict::AttentionStatistic::sum, kvevict::AttentionStatistic::mean,
    kvevict::AttentionStatistic::root_mean_square, kvevict::AttentionStatistic::maximum,
    kvevict::AttentionStatistic::mean_jacobian_diagonal};

}  // namespace kvevict_test
