// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/row_pieces.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/key_direction.hpp"

namespace kvevict::cpu {

/// Cosine of the angle between a row and a unit vector, 0 for a row of length zero.
template <class Row, class Vector>
float cosine_to_unit(const Row& row, const Vector& unit) {
  const float squared = row.squaredNorm();
  if (squares_in_range(squared)) return row.dot(unit.transpose()) / std::sqrt(squared);
  const auto wide = row.template cast<double>();
  const double norm = wide.norm();
  if (norm == 0.0) return 0.0f;
  return static_cast<float>(wide.dot(unit.transpose().template cast<double>()) / norm);
}

/// Scales to length one in double; the zero vector stays zero.
inline void normalise(VectorMap<float>& vector) {
  const double norm = vector.cast<double>().norm();
  if (norm != 0.0) vector = (vector.cast<double>() / norm).cast<float>();
}

template <class T>
void mean_direction_impl(Resources& res, const RowsView<T>& rows, MatrixView<float> direction) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("mean_direction.tiles", res.threads() * tile);
  double* pieces = scope.carve<double>("mean_direction.pieces", res.threads() * dim);
  double* sums = scope.carve<double>("mean_direction.sums", rows.heads() * dim);
  if (res.workspace().counting()) return;
  std::fill_n(sums, rows.heads() * dim, 0.0);
  sum_pieces(
      res, rows.layout(),
      [&](std::int64_t h, std::int64_t begin, std::int64_t end, int worker, std::int64_t slot) {
        VectorMap<double> sum(pieces + slot * dim, dim);
        sum.setZero();
        for_each_tile(rows.head(h), begin, end, tiles + worker * tile,
                      [&](std::int64_t, const auto& block) {
                        for (Eigen::Index i = 0; i < block.rows(); ++i) {
                          const auto row = block.row(i);
                          const double norm = wide_norm(row);
                          if (norm != 0.0)
                            sum += row.transpose().template cast<double>() * (1.0 / norm);
                        }
                      });
      },
      [&](std::int64_t h, std::int64_t, std::int64_t slot) {
        VectorMap<double>(sums + h * dim, dim) += VectorMap<const double>(pieces + slot * dim, dim);
      });
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    const VectorMap<const double> sum(sums + h * dim, dim);
    const std::int64_t n = rows.rows(h);
    // What directions that cancel leave of rounding is no direction: far below what fp32 keys can
    // mean.
    const bool cancelled = sum.norm() <= 1e-13 * static_cast<double>(n);
    const double weight = n > 0 && !cancelled ? 1.0 / static_cast<double>(n) : 0.0;
    for (std::int64_t c = 0; c < dim; ++c) {
      direction(h, c) = static_cast<float>(sum[c] * weight);
    }
  }
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
  for_each_piece(
      res, rows.layout(), [&](std::int64_t h, std::int64_t begin, std::int64_t end, int worker) {
        VectorMap<float> unit(units + worker * dim, dim);
        for_each_tile(rows.head(h), begin, end, tiles + worker * tile,
                      [&](std::int64_t first, const auto& block) {
                        for (std::int64_t g = 0; g < group; ++g) {
                          const std::int64_t v = h * group + g;
                          for (std::int64_t c = 0; c < dim; ++c) unit[c] = directions(v, c);
                          normalise(unit);
                          float* out = scores.head(v) + begin + first;
                          for (Eigen::Index i = 0; i < block.rows(); ++i) {
                            const float cosine = cosine_to_unit(block.row(i), unit);
                            out[i] =
                                scale * (cosine > 1.0f ? 1.0f : (cosine < -1.0f ? -1.0f : cosine));
                          }
                        }
                      });
      });
}

}  // namespace kvevict::cpu
