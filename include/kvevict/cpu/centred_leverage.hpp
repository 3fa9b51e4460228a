// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "kvevict/cpu/capacity.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/math/random.hpp"
#include "kvevict/ops/centred_leverage.hpp"

namespace kvevict::cpu {

/// Rows [begin, end) of a head.
template <class T>
struct RowsOfHead {
  HeadView<T> head;
  std::int64_t begin;
  std::int64_t end;
};

/// Mean of the rows in double, rounded to floats.
template <class T>
void mean_of_rows(const RowsOfHead<T>& rows, float* tile, double* sums, float* mean) {
  const std::int64_t dim = rows.head.dim;
  VectorMap<double> sum(sums, dim);
  sum.setZero();
  for_each_tile(rows.head, rows.begin, rows.end, tile, [&](std::int64_t, const auto& block) {
    for (Eigen::Index i = 0; i < block.rows(); ++i) {
      sum += block.row(i).transpose().template cast<double>();
    }
  });
  for (std::int64_t c = 0; c < dim; ++c) {
    mean[c] = static_cast<float>(sum[c] / static_cast<double>(rows.end - rows.begin));
  }
}

/// gram = sum of (x - mean) (x - mean)^T. `centred` holds a tile of doubles.
template <class T>
void centred_gram(const RowsOfHead<T>& rows, const float* mean, float* tile, double* centred,
                  MatrixMap<double> gram) {
  const std::int64_t dim = rows.head.dim;
  const VectorMap<const float> centre(mean, dim);
  gram.setZero();
  for_each_tile(rows.head, rows.begin, rows.end, tile, [&](std::int64_t, const auto& block) {
    auto own = map_matrix(centred, block.rows(), dim);
    for (Eigen::Index i = 0; i < block.rows(); ++i) {
      own.row(i) =
          block.row(i).template cast<double>() - centre.transpose().template cast<double>();
    }
    add_gram_of_tile(centred, dim, block.rows(), dim, gram.data(), gram.outerStride());
  });
  mirror_gram(gram);
}

/// scores[i] = |factor (x_i - mean)|^2. `products` holds two tiles.
template <class T>
void centred_leverage_of_head(const RowsOfHead<T>& rows, const float* mean,
                              const MatrixMap<const float>& factor, float* tile, float* products,
                              float* scores) {
  const std::int64_t dim = rows.head.dim;
  const VectorMap<const float> centre(mean, dim);
  for_each_tile(rows.head, rows.begin, rows.end, tile, [&](std::int64_t first, const auto& block) {
    auto own = map_matrix(products, block.rows(), dim);
    auto product = map_matrix(products + tile_size(dim), block.rows(), dim);
    own = block.rowwise() - centre.transpose();
    product.noalias() = own * factor.transpose();
    for (Eigen::Index i = 0; i < block.rows(); ++i) {
      const double length = wide_norm(product.row(i));
      scores[first + i] = static_cast<float>(length * length);
    }
  });
}

template <class T>
void centred_leverage_impl(Resources& res, const RowsView<T>& rows,
                           MatrixBatchView<const float> transforms, const RowRange& range,
                           Noise noise, ScoreView<> scores) {
  const std::int64_t heads = rows.heads();
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  const std::int64_t matrix = dim * dim;
  WorkspaceScope scope(res.workspace());
  float* tiles = scope.carve<float>("centred_leverage.tiles", res.threads() * tile);
  float* products = scope.carve<float>("centred_leverage.products", res.threads() * 2 * tile);
  float* factors = scope.carve<float>("centred_leverage.factors", res.threads() * matrix);
  float* means = scope.carve<float>("centred_leverage.means", res.threads() * dim);
  double* centred = scope.carve<double>("centred_leverage.centred", res.threads() * tile);
  double* doubles = scope.carve<double>("centred_leverage.matrices", res.threads() * 4 * matrix);
  auto* outcomes = scope.carve<CapacityOutcome>("centred_leverage.outcomes", heads);
  if (res.workspace().counting()) return;
  res.parallel_for(heads, [&](std::int64_t h, int worker) {
    const HeadView<T> whole = rows.head(h);
    const RowsOfHead<T> head{whole, range.begin(whole.rows), range.end(whole.rows)};
    std::fill_n(scores.head(h), whole.rows, 0.0f);
    outcomes[h] = CapacityOutcome::zero;
    if (head.begin == head.end) return;
    double* gram = doubles + worker * 4 * matrix;
    float* factor = factors + worker * matrix;
    float* mean = means + worker * dim;
    float* head_tile = tiles + worker * tile;
    mean_of_rows(head, head_tile, gram, mean);
    centred_gram(head, mean, head_tile, centred + worker * tile, map_matrix(gram, dim, dim));
    outcomes[h] =
        factor_of_gram(map_matrix<const double>(gram, dim, dim), matrix_or_none(transforms, h, dim),
                       noise, gram + matrix, map_matrix(factor, dim, dim));
    if (outcomes[h] != CapacityOutcome::usable) return;
    centred_leverage_of_head(head, mean, map_matrix<const float>(factor, dim, dim), head_tile,
                             products + worker * 2 * tile, scores.head(h) + head.begin);
  });
  count_outcomes(outcomes, heads, res.report());
}

inline void gaussian_sketch_impl(Resources& res, std::uint64_t seed, std::int64_t width,
                                 MatrixView<float> sketch) {
  if (res.workspace().counting()) return;
  const double scale = 1.0 / std::sqrt(static_cast<double>(width));
  for (std::int64_t r = 0; r < sketch.shape[0]; ++r) {
    for (std::int64_t c = 0; c < sketch.shape[1]; ++c) {
      sketch(r, c) =
          r < width ? static_cast<float>(scale * random_normal(seed, static_cast<std::uint64_t>(r),
                                                               static_cast<std::uint64_t>(c)))
                    : 0.0f;
    }
  }
}

}  // namespace kvevict::cpu
