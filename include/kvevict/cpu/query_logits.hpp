// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/query_products.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/row_pieces.hpp"
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
  for_each_piece(
      res, rows.layout(), [&](std::int64_t h, std::int64_t begin, std::int64_t end, int worker) {
        VectorMap<float> vector(scaled + worker * dim, dim);
        for_each_tile(rows.head(h), begin, end, tiles + worker * tile,
                      [&](std::int64_t first, const auto& block) {
                        for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
                          for (std::int64_t c = 0; c < dim; ++c) vector[c] = scale * vectors(q, c);
                          VectorMap<float>(logits.head(q) + begin + first, block.rows()).noalias() =
                              block * vector;
                        }
                      });
      });
}

/// scale * the diagonal of one query head's covariance.
inline void copy_variances(const QueryStatsView<>& stats, std::int64_t q, std::int64_t dim,
                           float scale, float* to) {
  for (std::int64_t c = 0; c < dim; ++c) {
    to[c] = scale * (stats.diagonal.empty() ? stats.covariance(q, c, c) : stats.diagonal(q, c));
  }
}

/// The triangle whose quadratic form is that of scale * covariance: entries beside the diagonal and
/// their mirror images added up below it. [dim][padded_queries(dim)]
inline void fold_covariance(const QueryStatsView<>& stats, std::int64_t q, std::int64_t dim,
                            float scale, float* to) {
  const std::int64_t padded = padded_queries(dim);
  std::fill_n(to, dim * padded, 0.0f);
  for (std::int64_t r = 0; r < dim; ++r) {
    for (std::int64_t c = 0; c < r; ++c) {
      to[r * padded + c] = scale * stats.covariance(q, r, c) + scale * stats.covariance(q, c, r);
    }
    to[r * padded + r] = scale * stats.covariance(q, r, r);
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
  const std::int64_t padded = padded_queries(dim);
  const std::int64_t matrix_size = full ? dim * padded : dim;
  const std::int64_t product_size = tile_size(padded);
  float* tiles = scope.carve<float>("quadratic_form.tiles", res.threads() * tile);
  float* products = scope.carve<float>("quadratic_form.products", res.threads() * product_size);
  float* matrices =
      scope.carve<float>("quadratic_form.matrices", res.threads() * group * matrix_size);
  if (res.workspace().counting()) return;
  const auto form_of_tile = [&](const MatrixMap<const float>& block, const float* matrix,
                                float* product, float* to) {
    VectorMap<float> result(to, block.rows());
    if (!add) result.setZero();
    if (full) {
      multiply_packed(block, matrix, padded, PackedShape::lower, product);
      result += map_matrix<const float>(product, block.rows(), dim, padded)
                    .cwiseProduct(block)
                    .rowwise()
                    .sum();
    } else {
      result.noalias() += block.cwiseAbs2() * VectorMap<const float>(matrix, dim);
    }
  };
  // Tiles outside and query heads inside: the keys are read and converted once.
  for_each_piece(res, rows.layout(),
                 [&](std::int64_t h, std::int64_t begin, std::int64_t end, int worker) {
                   float* group_matrices = matrices + worker * group * matrix_size;
                   for (std::int64_t g = 0; g < group; ++g) {
                     float* matrix = group_matrices + g * matrix_size;
                     if (full) {
                       fold_covariance(stats, h * group + g, dim, scale, matrix);
                     } else {
                       copy_variances(stats, h * group + g, dim, scale, matrix);
                     }
                   }
                   for_each_tile(rows.head(h), begin, end, tiles + worker * tile,
                                 [&](std::int64_t first, const auto& block) {
                                   for (std::int64_t g = 0; g < group; ++g) {
                                     form_of_tile(block, group_matrices + g * matrix_size,
                                                  products + worker * product_size,
                                                  out.head(h * group + g) + begin + first);
                                   }
                                 });
                 });
}

}  // namespace kvevict::cpu
