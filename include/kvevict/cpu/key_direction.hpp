// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"

namespace kvevict::cpu {

/// 1 / |x| from |x|^2, and 0 for the zero vector, so that its direction is zero.
inline float inverse_norm(float squared) {
  return squared > 0.0f ? 1.0f / std::sqrt(squared) : (squared == 0.0f ? 0.0f : squared);
}

template <class T>
void mean_direction_impl(Resources& res, const RowsView<T>& rows, MatrixView<float> direction) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("mean_direction.tiles", res.threads() * tile);
  double* sums = scope.carve<double>("mean_direction.sums", res.threads() * dim);
  if (res.workspace().counting()) return;
  res.parallel_for(rows.heads(), [&](std::int64_t h, int worker) {
    VectorMap<double> sum(sums + worker * dim, dim);
    sum.setZero();
    for_each_tile(rows.head(h), tiles + worker * tile, [&](std::int64_t, const auto& block) {
      for (Eigen::Index i = 0; i < block.rows(); ++i) {
        const auto row = block.row(i);
        sum += (row.transpose() * inverse_norm(row.squaredNorm())).template cast<double>();
      }
    });
    const std::int64_t n = rows.rows(h);
    const double weight = n > 0 ? 1.0 / static_cast<double>(n) : 0.0;
    for (std::int64_t c = 0; c < dim; ++c) {
      direction(h, c) = static_cast<float>(sum[c] * weight);
    }
  });
}

template <class T>
void cosine_impl(Resources& res, const RowsView<T>& rows, MatrixView<const float> directions,
                 std::int64_t group, float scale, ScoreView<> scores) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("cosine.tiles", res.threads() * tile);
  float* units = scope.carve<float>("cosine.directions", res.threads() * dim);
  if (res.workspace().counting()) return;
  res.parallel_for(rows.heads(), [&](std::int64_t h, int worker) {
    VectorMap<float> unit(units + worker * dim, dim);
    for_each_tile(rows.head(h), tiles + worker * tile, [&](std::int64_t first, const auto& block) {
      for (std::int64_t g = 0; g < group; ++g) {
        const std::int64_t v = h * group + g;
        for (std::int64_t c = 0; c < dim; ++c) unit[c] = directions(v, c);
        unit *= inverse_norm(unit.squaredNorm());
        float* out = scores.head(v) + first;
        for (Eigen::Index i = 0; i < block.rows(); ++i) {
          const auto row = block.row(i);
          const float cosine = row.dot(unit) * inverse_norm(row.squaredNorm());
          out[i] = scale * (cosine > 1.0f ? 1.0f : (cosine < -1.0f ? -1.0f : cosine));
        }
      }
    });
  });
}

}  // namespace kvevict::cpu
