// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "kvevict/core/scores.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/row_pieces.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/projected_norms.hpp"

namespace kvevict::cpu {

template <class T>
void projected_norms_impl(Resources& res, const RowsView<T>& rows,
                          const MatrixBatchView<const float>& transforms, std::int64_t group,
                          ProjectedNorm norm, ScoreView<> out) {
  constexpr std::int64_t columns = 128;  // of products at a time
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("projected_norms.tiles", res.threads() * tile);
  float* products =
      scope.carve<float>("projected_norms.products", res.threads() * tile_size(columns));
  if (res.workspace().counting()) return;
  const auto norms_of = [&](std::int64_t q, std::int64_t begin, std::int64_t end, int worker) {
    float* norms = out.head(q) + begin;
    for_each_tile(
        rows.head(q / group), begin, end, tiles + worker * tile,
        [&](std::int64_t first, const auto& block) {
          const std::int64_t count = block.rows();
          Eigen::Matrix<double, tile_rows, 1> sums = Eigen::Matrix<double, tile_rows, 1>::Zero();
          for (std::int64_t c = 0; c < transforms.shape[1]; c += columns) {
            const std::int64_t n = std::min(columns, transforms.shape[1] - c);
            const auto transform = map_matrix(&transforms(q, c, 0), n, dim, transforms.stride[1]);
            auto product = map_matrix(products + worker * tile_size(columns), count, n);
            product.noalias() = block * transform.transpose();
            for (std::int64_t i = 0; i < count; ++i) {
              const auto wide = product.row(i).template cast<double>();
              sums[i] +=
                  norm == ProjectedNorm::euclidean ? wide.squaredNorm() : wide.template lpNorm<1>();
            }
          }
          for (std::int64_t i = 0; i < count; ++i) {
            norms[first + i] =
                static_cast<float>(norm == ProjectedNorm::euclidean ? std::sqrt(sums[i]) : sums[i]);
          }
        });
  };
  for_each_piece(res, rows.layout().repeated(group), norms_of);
}

}  // namespace kvevict::cpu
