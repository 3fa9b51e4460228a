// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/query_logits.hpp"

namespace kvevict::cpu {

template <class T>
void query_logits_impl(Resources& res, const RowsView<T>& rows, MatrixView<const float> vectors,
                       std::int64_t group, float scale, ScoreView<> logits) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("query_logits.tiles", res.threads() * tile);
  float* scaled = scope.carve<float>("query_logits.vectors", res.threads() * dim);
  if (res.workspace().counting()) return;
  res.parallel_for(rows.heads(), [&](std::int64_t h, int worker) {
    VectorMap<float> vector(scaled + worker * dim, dim);
    for_each_tile(rows.head(h), tiles + worker * tile, [&](std::int64_t first, const auto& block) {
      for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
        for (std::int64_t c = 0; c < dim; ++c) vector[c] = scale * vectors(q, c);
        VectorMap<float>(logits.head(q) + first, block.rows()).noalias() = block * vector;
      }
    });
  });
}

/// scale * covariance of one query head, densely: its diagonal [dim] or the whole [dim][dim].
inline void copy_covariance(const QueryStatsView<>& stats, std::int64_t q, Covariance covariance,
                            std::int64_t dim, float scale, float* to) {
  for (std::int64_t c = 0; c < dim; ++c) {
    if (covariance == Covariance::diagonal) {
      to[c] = scale * (stats.diagonal.empty() ? stats.covariance(q, c, c) : stats.diagonal(q, c));
      continue;
    }
    for (std::int64_t r = 0; r < dim; ++r) to[r * dim + c] = scale * stats.covariance(q, r, c);
  }
}

template <class T>
void quadratic_form_impl(Resources& res, const RowsView<T>& rows, const QueryStatsView<>& stats,
                         Covariance covariance, std::int64_t group, float scale, bool add,
                         ScoreView<> out) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  const bool full = covariance == Covariance::full;
  const std::int64_t matrix_size = full ? dim * dim : dim;
  float* tiles = scope.carve<float>("quadratic_form.tiles", res.threads() * tile);
  float* products = scope.carve<float>("quadratic_form.products", res.threads() * tile);
  float* matrices =
      scope.carve<float>("quadratic_form.matrices", res.threads() * group * matrix_size);
  if (res.workspace().counting()) return;
  res.parallel_for(rows.heads(), [&](std::int64_t h, int worker) {
    float* group_matrices = matrices + worker * group * matrix_size;
    for (std::int64_t g = 0; g < group; ++g) {
      copy_covariance(stats, h * group + g, covariance, dim, scale,
                      group_matrices + g * matrix_size);
    }
    // Tiles outside and query heads inside: the keys are read and converted once.
    for_each_tile(rows.head(h), tiles + worker * tile, [&](std::int64_t first, const auto& block) {
      for (std::int64_t g = 0; g < group; ++g) {
        const float* matrix = group_matrices + g * matrix_size;
        VectorMap<float> result(out.head(h * group + g) + first, block.rows());
        if (!add) result.setZero();
        if (full) {
          auto product = map_matrix(products + worker * tile, block.rows(), dim);
          product.noalias() = block * map_matrix<const float>(matrix, dim, dim);
          result += product.cwiseProduct(block).rowwise().sum();
        } else {
          result.noalias() += block.cwiseAbs2() * VectorMap<const float>(matrix, dim);
        }
      }
    });
  });
}

}  // namespace kvevict::cpu
