// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

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

/// sum += the directions of rows [begin, end).
template <class T>
void add_directions_of(const HeadView<T>& head, std::int64_t begin, std::int64_t end, float* tile,
                       VectorMap<double> sum) {
  for_each_tile(head, begin, end, tile, [&](std::int64_t, const auto& block) {
    for (Eigen::Index i = 0; i < block.rows(); ++i) {
      const auto row = block.row(i);
      const double norm = wide_norm(row);
      if (norm != 0.0) sum += row.transpose().template cast<double>() * (1.0 / norm);
    }
  });
}

template <class T>
void add_directions_impl(Resources& res, const RowsView<T>& rows, const std::int64_t* first,
                         MatrixView<double> sums) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("mean_direction.tiles", res.threads() * tile);
  double* pieces = scope.carve<double>("mean_direction.pieces", res.threads() * dim);
  std::int64_t* offsets = scope.carve<std::int64_t>("mean_direction.offsets", rows.heads() + 1);
  if (res.workspace().counting()) return;
  offsets[0] = 0;
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    offsets[h + 1] = offsets[h] + rows.rows(h) - first[h];
  }
  sum_pieces(
      res, RowLayout<>::ragged(offsets, rows.heads()),
      [&](std::int64_t h, std::int64_t begin, std::int64_t end, int worker, std::int64_t slot) {
        VectorMap<double> sum(pieces + slot * dim, dim);
        sum.setZero();
        add_directions_of(rows.head(h), first[h] + begin, first[h] + end, tiles + worker * tile,
                          sum);
      },
      [&](std::int64_t h, std::int64_t, std::int64_t slot) {
        VectorMap<double>(&sums(h, 0), dim) += VectorMap<const double>(pieces + slot * dim, dim);
      });
}

template <class T>
void sum_leaving_directions_impl(Resources& res, SelectionView<> kept, const RowsView<T>& rows,
                                 MatrixView<double> sums) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("leaving_directions.tiles", res.threads() * tile);
  if (res.workspace().counting()) return;
  res.parallel_for(rows.heads(), [&](std::int64_t h, int worker) {
    VectorMap<double> sum(&sums(h, 0), dim);
    sum.setZero();
    if (!fewer_leave(rows.rows(h), kept.count(h))) return;
    const auto head = rows.head(h);
    std::int64_t begin = 0;
    for (std::int64_t j = 0; j <= kept.count(h); ++j) {
      const std::int64_t end = j < kept.count(h) ? kept.head(h)[j] : rows.rows(h);
      if (begin < end) add_directions_of(head, begin, end, tiles + worker * tile, sum);
      begin = end + 1;
    }
  });
}

inline void finish_direction_impl(Resources& res, MatrixView<const double> sums,
                                  const RowLayout<>& rows, const double* drift,
                                  MatrixView<float> direction) {
  if (res.workspace().counting()) return;
  const std::int64_t dim = sums.shape[1];
  for (std::int64_t h = 0; h < rows.heads(); ++h) {
    const VectorMap<const double> sum(&sums(h, 0), dim);
    const auto n = static_cast<double>(rows.rows(h));
    // What directions that cancel leave of rounding is no direction: far below what fp32 keys can
    // mean.
    const bool cancelled = sum.norm() <= 1e-13 * n + drift[h];
    const double weight = n > 0.0 && !cancelled ? 1.0 / n : 0.0;
    for (std::int64_t c = 0; c < dim; ++c) {
      direction(h, c) = static_cast<float>(sum[c] * weight);
    }
  }
}

template <class T>
void mean_direction_impl(Resources& res, const RowsView<T>& rows, MatrixView<float> direction) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t heads = rows.heads();
  const std::int64_t dim = rows.dim();
  double* memory = scope.carve<double>("mean_direction.sums", heads * dim);
  double* drift = scope.carve<double>("mean_direction.drift", heads);
  std::int64_t* first = scope.carve<std::int64_t>("mean_direction.first", heads);
  const bool counting = res.workspace().counting();
  if (!counting) {
    std::fill_n(memory, heads * dim, 0.0);
    std::fill_n(drift, heads, 0.0);
    std::fill_n(first, heads, std::int64_t{0});
  }
  const auto sums = MatrixView<double>::packed(memory, heads, dim);
  add_directions_impl(res, rows, first, sums);
  finish_direction_impl(res, sums, rows.layout(), drift, direction);
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
