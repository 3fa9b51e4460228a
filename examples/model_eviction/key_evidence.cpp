// SPDX-License-Identifier: Apache-2.0
#include "key_evidence.hpp"

#include <cmath>

#include <kvevict/kvevict.hpp>

namespace demo {
namespace {

void normalise(std::vector<double>& vector) {
  double squared = 0.0;
  for (const double x : vector) squared += x * x;
  const double norm = std::sqrt(squared);
  for (double& x : vector) x = norm > 0.0 ? x / norm : 0.0;
}

/// The main direction of the second moments C + m m^T of one head, by power iteration from the
/// mean, which also gives its sign.
std::vector<double> main_direction(const kvevict::QueryStatsView<>& stats, std::int64_t head) {
  const std::int64_t dim = stats.mean.shape[1];
  std::vector<double> direction;
  for (std::int64_t c = 0; c < dim; ++c) {
    direction.push_back(static_cast<double>(stats.mean(head, c)));
  }
  const std::vector<double> mean = direction;
  normalise(direction);
  for (int round = 0; round < 100; ++round) {
    double along = 0.0;
    for (std::int64_t c = 0; c < dim; ++c) {
      along += mean[static_cast<std::size_t>(c)] * direction[static_cast<std::size_t>(c)];
    }
    std::vector<double> next(mean.size());
    for (std::int64_t r = 0; r < dim; ++r) {
      double& sum = next[static_cast<std::size_t>(r)];
      sum = along * mean[static_cast<std::size_t>(r)];
      for (std::int64_t c = 0; c < dim; ++c) {
        sum += static_cast<double>(stats.covariance(head, r, c)) *
               direction[static_cast<std::size_t>(c)];
      }
    }
    normalise(next);
    direction = next;
  }
  return direction;
}

}  // namespace

void UnrotatedKeys::turn_back(const kvevict::Rope& rope, std::int32_t position, float* key) const {
  for (std::int64_t pair = 0; pair < rope.rotated(dim_) / 2; ++pair) {
    const double angle = static_cast<double>(position) * rope.frequency(pair, dim_);
    const double cosine = std::cos(angle) / rope.attention_factor;
    const double sine = std::sin(angle) / rope.attention_factor;
    float& first = key[rope.first_channel(pair)];
    float& second = key[rope.second_channel(pair, dim_)];
    const auto x = static_cast<double>(first);
    const auto y = static_cast<double>(second);
    first = static_cast<float>(x * cosine + y * sine);
    second = static_cast<float>(y * cosine - x * sine);
  }
}

std::vector<float> query_filters(kvevict::CpuResources& res, const kvevict::QueriesView<>& queries,
                                 std::int64_t kv_heads) {
  kvevict::QueryStats stats = kvevict::window_query_stats(res, queries, kvevict::Covariance::full);
  const kvevict::QueryStatsView<> view = stats.view();
  const std::int64_t group = queries.heads() / kv_heads;
  std::vector<float> filters;
  for (std::int64_t h = 0; h < kv_heads; ++h) {
    std::vector<double> filter(static_cast<std::size_t>(queries.dim()), 0.0);
    for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
      const std::vector<double> direction = main_direction(view, q);
      for (std::size_t c = 0; c < filter.size(); ++c) filter[c] -= direction[c];
    }
    normalise(filter);
    filters.insert(filters.end(), filter.begin(), filter.end());
  }
  return filters;
}

}  // namespace demo
