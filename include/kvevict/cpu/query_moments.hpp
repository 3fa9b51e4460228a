// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "kvevict/cpu/lane_products.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/query_moments.hpp"

namespace kvevict::cpu {

/// Adds the products about the tile's mean of centred rows, and the correction for the means'
/// distance, to the stored second moments of one head.
inline void add_second_moments(const Rope& rope, Covariance covariance,
                               const MatrixMap<double>& centred, const VectorMap<double>& distance,
                               double weight, double* second) {
  const std::int64_t dim = centred.cols();
  if (covariance == Covariance::full) {
    auto matrix = map_matrix(second, dim, dim);
    add_gram_of_tile<double>(centred.data(), dim, centred.rows(), dim, second, dim);
    matrix.selfadjointView<Eigen::Lower>().rankUpdate(distance, weight);
    return;
  }
  VectorMap<double> variances(second, dim);
  variances += centred.colwise().squaredNorm().transpose() + weight * distance.cwiseAbs2();
  for (std::int64_t pair = 0; pair < rope.rotated(dim) / 2; ++pair) {
    const std::int64_t a = rope.first_channel(pair);
    const std::int64_t b = rope.second_channel(pair, dim);
    second[dim + pair] += centred.col(a).dot(centred.col(b)) + weight * distance[a] * distance[b];
  }
}

inline void accumulate_query_moments_impl(Resources& res, const QueriesView<>& queries,
                                          std::int64_t first, const Rope& rope,
                                          Covariance covariance, double weight, double kept_share,
                                          const QueryMoments<>& moments) {
  const std::int64_t dim = queries.dim();
  const std::int64_t tile = tile_size(dim);
  WorkspaceScope scope(res.workspace());
  float* floats = scope.carve<float>("query_moments.queries", res.threads() * tile);
  double* doubles = scope.carve<double>("query_moments.centred", res.threads() * tile);
  double* means = scope.carve<double>("query_moments.distance", res.threads() * dim);
  if (res.workspace().counting()) return;
  res.parallel_for(queries.heads(), [&](std::int64_t q, int worker) {
    VectorMap<double> distance(means + worker * dim, dim);
    if (kept_share != 1.0 && covariance != Covariance::none) {
      VectorMap<double>(&moments.second(q, 0), moments.second.shape[1]) *= kept_share;
    }
    double seen = weight;
    for (std::int64_t start = first; start < queries.count(); start += tile_rows) {
      const std::int64_t n = std::min(tile_rows, queries.count() - start);
      float* block = floats + worker * tile;
      load_queries(queries, q, start, n, block);
      auto centred = map_matrix(doubles + worker * tile, n, dim);
      centred = map_matrix<const float>(block, n, dim).template cast<double>();
      distance = centred.colwise().mean().transpose();
      centred.rowwise() -= distance.transpose();
      const double added = static_cast<double>(n);
      const double total = seen + added;
      for (std::int64_t c = 0; c < dim; ++c) {
        distance[c] -= moments.mean(q, c);
        moments.mean(q, c) += distance[c] * (added / total);
      }
      if (covariance != Covariance::none) {
        add_second_moments(rope, covariance, centred, distance, seen * added / total,
                           &moments.second(q, 0));
      }
      seen = total;
    }
  });
}

inline void merge_query_moments_impl(Resources& res,
                                     const QueryMoments<MemorySpace::host, const double>& other,
                                     std::int64_t other_count, const Rope& rope,
                                     Covariance covariance, std::int64_t count,
                                     const QueryMoments<>& moments) {
  const std::int64_t heads = moments.mean.shape[0];
  const std::int64_t dim = moments.mean.shape[1];
  WorkspaceScope scope(res.workspace());
  double* distances = scope.carve<double>("query_moments.distance", res.threads() * dim);
  if (res.workspace().counting()) return;
  const double added = static_cast<double>(other_count);
  const double total = static_cast<double>(count) + added;
  const double weight = static_cast<double>(count) * added / total;
  res.parallel_for(heads, [&](std::int64_t q, int worker) {
    double* distance = distances + worker * dim;
    for (std::int64_t c = 0; c < dim; ++c) {
      distance[c] = other.mean(q, c) - moments.mean(q, c);
      moments.mean(q, c) += distance[c] * (added / total);
    }
    if (covariance == Covariance::none) return;
    double* second = &moments.second(q, 0);
    const double* others = &other.second(q, 0);
    if (covariance == Covariance::full) {
      for (std::int64_t r = 0; r < dim; ++r) {
        for (std::int64_t c = 0; c <= r; ++c) {
          second[r * dim + c] += others[r * dim + c] + weight * distance[r] * distance[c];
        }
      }
      return;
    }
    for (std::int64_t c = 0; c < dim; ++c) {
      second[c] += others[c] + weight * distance[c] * distance[c];
    }
    for (std::int64_t pair = 0; pair < rope.rotated(dim) / 2; ++pair) {
      second[dim + pair] += others[dim + pair] + weight * distance[rope.first_channel(pair)] *
                                                     distance[rope.second_channel(pair, dim)];
    }
  });
}

inline void rotate_queries_impl(Resources& res, const QueriesView<>& queries,
                                const std::int32_t* rows, const std::int32_t* positions,
                                std::int64_t count, const Rope& rope, MatrixBatchView<float> to) {
  if (res.workspace().counting()) return;
  const std::int64_t dim = queries.dim();
  const std::int64_t pairs = rope.rotated(dim) / 2;
  // One task for each probe: its angles serve all heads.
  res.parallel_for(count, [&](std::int64_t i, int) {
    for (std::int64_t q = 0; q < queries.heads(); ++q) {
      load_queries(queries, q, rows[i], 1, &to(q, i, 0));
    }
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const double angle = static_cast<double>(positions[i]) * rope.frequency(pair, dim);
      const double cosine = rope.attention_factor * std::cos(angle);
      const double sine = rope.attention_factor * std::sin(angle);
      const std::int64_t first = rope.first_channel(pair);
      const std::int64_t second = rope.second_channel(pair, dim);
      for (std::int64_t q = 0; q < queries.heads(); ++q) {
        const double a = static_cast<double>(to(q, i, first));
        const double b = static_cast<double>(to(q, i, second));
        to(q, i, first) = static_cast<float>(a * cosine - b * sine);
        to(q, i, second) = static_cast<float>(a * sine + b * cosine);
      }
    }
  });
}

}  // namespace kvevict::cpu
