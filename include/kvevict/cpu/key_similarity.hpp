// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/key_similarity.hpp"

namespace kvevict::cpu {

/// What one head needs, and a thread has.
struct SimilarityScratch {
  float* tile;      ///< of rows
  float* units;     ///< a tile of rows of length one
  float* products;  ///< [tile_rows][tile_rows]
  double* sum;      ///< [dim] of rows of length one
  float* inverse;   ///< [rows] 1 / length, 0 for a row of length zero
  double* exempt;   ///< [rows] cosines with the rows whose latest similar row this is
};

/// Writes the inverse lengths of all rows and the sum of the rows of length one.
template <class T>
void sum_of_units(const HeadView<T>& head, const SimilarityScratch& scratch) {
  VectorMap<double> sum(scratch.sum, head.dim);
  sum.setZero();
  for_each_tile(head, scratch.tile, [&](std::int64_t first, const auto& block) {
    for (Eigen::Index i = 0; i < block.rows(); ++i) {
      const auto row = block.row(i);
      const double norm = wide_norm(row);
      const double inverse = norm == 0.0 ? 0.0 : 1.0 / norm;
      scratch.inverse[first + i] = static_cast<float>(inverse);
      if (norm != 0.0) sum += row.transpose().template cast<double>() * inverse;
    }
  });
}

/// Adds to `exempt` the cosines of the rows [first, first + count) with their latest similar rows.
template <class T>
void find_latest_similar(const HeadView<T>& head, std::int64_t first, std::int64_t count,
                         float threshold, const SimilarityScratch& scratch) {
  const std::int64_t dim = head.dim;
  auto units = map_matrix(scratch.units, count, dim);
  units = load_tile(head, first, count, scratch.tile);
  for (std::int64_t i = 0; i < count; ++i) units.row(i) *= scratch.inverse[first + i];
  bool found[tile_rows] = {};
  std::int64_t left = count;
  const std::int64_t tiles = (head.rows + tile_rows - 1) / tile_rows;
  for (std::int64_t t = tiles - 1; t >= 0 && left > 0; --t) {
    const std::int64_t start = t * tile_rows;
    const std::int64_t columns = std::min(tile_rows, head.rows - start);
    auto products = map_matrix(scratch.products, count, columns);
    products.noalias() = units * load_tile(head, start, columns, scratch.tile).transpose();
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = columns - 1; j >= 0 && !found[i]; --j) {
        const float cosine = std::min(products(i, j) * scratch.inverse[start + j], 1.0f);
        if (!(cosine > threshold) || start + j == first + i) continue;
        scratch.exempt[start + j] += static_cast<double>(cosine);
        found[i] = true;
        --left;
      }
    }
  }
}

template <class T>
void mean_similarity_impl(Resources& res, const RowsView<T>& rows, float threshold,
                          ScoreView<> out) {
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  const std::int64_t longest = rows.layout().longest();
  WorkspaceScope scope(res.workspace());
  const std::int64_t threads = res.threads();
  constexpr std::int64_t square = tile_rows * tile_rows;
  float* tiles = scope.carve<float>("mean_similarity.tiles", threads * tile);
  float* units = scope.carve<float>("mean_similarity.units", threads * tile);
  float* products = scope.carve<float>("mean_similarity.products", threads * square);
  double* sums = scope.carve<double>("mean_similarity.sums", threads * dim);
  float* inverses = scope.carve<float>("mean_similarity.inverses", threads * longest);
  double* exempts = scope.carve<double>("mean_similarity.exempt", threads * longest);
  if (res.workspace().counting()) return;
  res.parallel_for(rows.heads(), [&](std::int64_t h, int worker) {
    const HeadView<T> head = rows.head(h);
    const std::int64_t n = head.rows;
    const SimilarityScratch scratch{tiles + worker * tile,       units + worker * tile,
                                    products + worker * square,  sums + worker * dim,
                                    inverses + worker * longest, exempts + worker * longest};
    sum_of_units(head, scratch);
    std::fill_n(scratch.exempt, n, 0.0);
    for (std::int64_t first = 0; first < n; first += tile_rows) {
      find_latest_similar(head, first, std::min(tile_rows, n - first), threshold, scratch);
    }
    const VectorMap<const double> sum(scratch.sum, dim);
    float* to = out.head(h);
    for_each_tile(head, scratch.tile, [&](std::int64_t first, const auto& block) {
      for (Eigen::Index i = 0; i < block.rows(); ++i) {
        const auto inverse = static_cast<double>(scratch.inverse[first + i]);
        const double all = block.row(i).template cast<double>().dot(sum) * inverse;
        const double itself = inverse != 0.0 ? 1.0 : 0.0;
        to[first + i] =
            static_cast<float>((all - itself - scratch.exempt[first + i]) / static_cast<double>(n));
      }
    });
  });
}

}  // namespace kvevict::cpu
