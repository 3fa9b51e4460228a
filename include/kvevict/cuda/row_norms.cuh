// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/scores.hpp"
#include "kvevict/cuda/row_sweep.cuh"
#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/ops/row_norms.hpp"

namespace kvevict::cuda {

namespace detail {

/// Several lanes know the norm of a row; `part` of `parts` is which of them this one is.
struct StoreNorm {
  ScoreView<MemorySpace::device> scores;
  float scale;

  __device__ void operator()(std::int64_t head, std::int64_t row, int part, int /*parts*/,
                             double norm) const {
    if (part == 0) scores.head(head)[row] = scale * static_cast<float>(norm);
  }
};

/// One block for each tile of a head.
template <class Shape, class T, class Use>
__global__ void __launch_bounds__(Shape::threads, 5)
    use_row_norms(RowsView<const T, MemorySpace::device> view, std::int64_t tiles,
                  std::int64_t tile_rows, Use use) {
  const HeadTile tile = head_tile(blockIdx.x, tiles, tile_rows, view.layout());
  if (tile.count == 0) return;
  constexpr int parts = Shape::lanes / Shape::rows;
  const HeadView<const T, MemorySpace::device> head = view.head(tile.head);
  const RowReader<Shape, T> rows(head, tile);
  float squares[Shape::rows] = {};
  sweep_rows(rows, [&](int first, int reach, const RowSet<Shape>& set) {
    add_squares<Shape, T>(set, squares);
    if (reach + 1 < rows.reaches()) return;
    scatter_sums<Shape::lanes>(squares);
    const float squared = squares[0];
    KVEVICT_UNROLL
    for (int r = 0; r < Shape::rows; ++r) squares[r] = 0.0f;
    const int row = first + Shape::row(Shape::lane() / parts);
    if (row >= rows.rows()) return;
    const double norm = squares_in_range(squared) ? static_cast<double>(sqrtf(squared))
                                                  : wide_norm(head, tile.first + row);
    use(tile.head, tile.first + row, Shape::lane() % parts, parts, norm);
  });
}

/// Calls use(head, row, part, parts, |row|_2) for every row.
template <class T, class Use>
void for_row_norms(Resources& res, const char* name,
                   const RowsView<const T, MemorySpace::device>& rows, const Use& use) {
  with_row_shape<T>(rows.dim(), [&](auto shape) {
    using Shape = decltype(shape);
    const std::int64_t tile_rows = rows_per_block(res, rows.layout().total(), Shape::step_rows);
    const std::int64_t tiles = tiles_of(rows.layout().longest(), tile_rows);
    launch(res, name, use_row_norms<Shape, T, Use>, rows.heads() * tiles, Shape::threads, 0, rows,
           tiles, tile_rows, use);
  });
}

struct ScaleNorms {
  KeyNorms<MemorySpace::device> norms;
  float scale;
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    const float* from = norms.data + norms.layout.offset(tile.head);
    float* to = scores.head(tile.head);
    for_rows_of(tile, [&](std::int64_t row) { to[row] = scale * from[row]; });
  }
};

}  // namespace detail

/// A read and a write of each score.
inline void scale_norms_impl(Resources& res, const KeyNorms<MemorySpace::device>& norms,
                             float scale, ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "scale_norms", scores.layout, detail::ScaleNorms{norms, scale, scores});
}

/// One read of the rows, at the speed of memory.
template <class T>
void row_norms_impl(Resources& res, const RowsView<T, MemorySpace::device>& rows, float scale,
                    ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  using Read = RowsView<const std::remove_const_t<T>, MemorySpace::device>;
  detail::for_row_norms(res, "row_norms", Read(rows), detail::StoreNorm{scores, scale});
}

}  // namespace kvevict::cuda
