// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/core/scores.hpp"
#include "kvevict/cuda/row_sweep.cuh"
#include "kvevict/cuda/vector.cuh"

namespace kvevict::cuda {

/// What a row x and a vector w give.
enum class RowProduct {
  dot,      ///< w . x
  squares,  ///< sum of w_c x_c^2
  cosine    ///< w . x / |x| within [-1, 1], 0 for a row of length zero; w has length one or zero
};

/// Vector v belongs to head v / group: out[v][i] = (add ? out[v][i] : 0) + scale * product of
/// vector v and row i.
struct RowProducts {
  MatrixView<const float, MemorySpace::device> vectors;  ///< [heads * group][dim]
  int group;
  float scale;
  bool add;
  ScoreView<MemorySpace::device> out;
};

namespace detail {

__device__ inline float within_one(float cosine) {
  return cosine > 1.0f ? 1.0f : (cosine < -1.0f ? -1.0f : cosine);
}

/// Writes `Count` vectors of a head from `first` on to shared memory, [Count][channels] with zeros
/// outside the group and the vectors, by all threads of a block.
template <int Count>
__device__ void stage_vectors(const RowProducts& products, std::int64_t head, int first,
                              int channels, float scale, float* to) {
  KVEVICT_NO_UNROLL
  for (int i = static_cast<int>(threadIdx.x); i < Count * channels;
       i += static_cast<int>(blockDim.x)) {
    const int v = first + i / channels;
    const int c = i % channels;
    to[i] = v < products.group && c < products.vectors.shape[1]
                ? scale * products.vectors(head * products.group + v, c)
                : 0.0f;
  }
}

/// A lane's channels of `Count` vectors.
template <class Shape, int Count>
struct VectorParts {
  float values[Count][Shape::channels];

  __device__ void load(const float* staged, int channels, int reach) {
    KVEVICT_UNROLL
    for (int v = 0; v < Count; ++v) {
      const float* from =
          staged + v * channels + reach * Shape::reach + Shape::lane() * Shape::channels;
      KVEVICT_UNROLL
      for (int n = 0; n < Shape::channels; n += 4) {
        float part[4];
        load_vector(from + n, part);
        KVEVICT_UNROLL
        for (int k = 0; k < 4; ++k) values[v][n + k] = part[k];
      }
    }
  }
};

/// sums[v * rows + r] += product of a lane's channels of vector v and row r, and squares[r] +=
/// those of the row with itself, for cosines.
template <class Shape, RowProduct Kind, int Count, class T>
__device__ void add_products(const RowSet<Shape>& set, const VectorParts<Shape, Count>& vectors,
                             float (&sums)[Count * Shape::rows], float (&squares)[Shape::rows]) {
  KVEVICT_UNROLL
  for (int r = 0; r < Shape::rows; ++r) {
    float row[Shape::channels];
    widen_row<Shape, T>(set, r, row);
    KVEVICT_UNROLL
    for (int n = 0; n < Shape::channels; ++n) {
      const float x = Kind == RowProduct::squares ? row[n] * row[n] : row[n];
      KVEVICT_UNROLL
      for (int v = 0; v < Count; ++v) sums[v * Shape::rows + r] += x * vectors.values[v][n];
      if constexpr (Kind == RowProduct::cosine) squares[r] += x * x;
    }
  }
}

/// Products of a tile of rows with the `Count` staged vectors of its head, from `first_vector` on.
/// Returns whether cosines were left NaN because the squares of their rows leave the range of fp32.
template <class Shape, RowProduct Kind, int Count, class T>
__device__ bool multiply_tile(const HeadView<const T, MemorySpace::device>& head,
                              const HeadTile& tile, const RowProducts& products, int first_vector,
                              const float* staged, int channels) {
  constexpr int lanes = Shape::lanes;
  constexpr int count = Count * Shape::rows;
  // After `scatter_sums` a lane holds sums of one vector.
  constexpr int owned = count > lanes ? count / lanes : 1;
  constexpr int sharing = count < lanes ? lanes / count : 1;
  static_assert(owned <= Shape::rows);
  const int own = Shape::lane() * count / lanes;
  const int own_row = own % Shape::rows;
  const int own_vector = first_vector + own / Shape::rows;
  const bool writes = own_vector < products.group && Shape::lane() % sharing == 0;
  float* out =
      products.out.head(tile.head * products.group + (writes ? own_vector : 0)) + tile.first;

  const RowReader<Shape, T> rows(head, tile);
  VectorParts<Shape, Count> parts;
  parts.load(staged, channels, 0);
  float sums[count] = {};
  float squares[Shape::rows] = {};
  bool left = false;
  sweep_rows(rows, [&](int first, int reach, const RowSet<Shape>& set) {
    if (rows.reaches() > 1) parts.load(staged, channels, reach);
    add_products<Shape, Kind, Count, T>(set, parts, sums, squares);
    if (reach + 1 < rows.reaches()) return;
    scatter_sums<lanes>(sums);
    if constexpr (Kind == RowProduct::cosine) scatter_sums<lanes>(squares);
    KVEVICT_UNROLL
    for (int j = 0; j < owned; ++j) {
      const int row = first + Shape::row(own_row + j);
      const bool inside = row < rows.rows();
      float result = sums[j];
      if constexpr (Kind == RowProduct::cosine) {
        const float squared =
            __shfl_sync(full_warp, squares[0], (own_row + j) * (lanes / Shape::rows), lanes);
        const bool trusted = squares_in_range(squared);
        result = trusted ? products.scale * within_one(result / sqrtf(squared)) : nanf("");
        left = left || (inside && !trusted);
      }
      if (writes && inside) out[row] = products.add ? out[row] + result : result;
    }
    KVEVICT_UNROLL
    for (int i = 0; i < count; ++i) sums[i] = 0.0f;
    KVEVICT_UNROLL
    for (int r = 0; r < Shape::rows; ++r) squares[r] = 0.0f;
  });
  return left;
}

/// Computes the cosines of a tile with vector `vector` that are NaN in double, by all threads of a
/// block: those of rows whose squares leave the range of fp32, rows of length zero among them.
template <class T>
__device__ void widen_cosines(const HeadView<const T, MemorySpace::device>& head,
                              const HeadTile& tile, const RowProducts& products,
                              std::int64_t vector) {
  float* out = products.out.head(vector) + tile.first;
  for (std::int64_t i = threadIdx.x; i < tile.count; i += blockDim.x) {
    if (!isnan(out[i])) continue;
    const double norm = wide_norm(head, tile.first + i);
    double dot = 0.0;
    KVEVICT_NO_UNROLL
    for (std::int64_t c = 0; c < head.dim; ++c) {
      dot += static_cast<double>(head.value(tile.first + i, c)) *
             static_cast<double>(products.vectors(vector, c));
    }
    const float cosine = norm == 0.0 ? 0.0f : static_cast<float>(dot / norm);
    out[i] = products.scale * within_one(cosine);
  }
}

/// One block for each tile of a head and each `Count` of its vectors. Blocks that share a tile are
/// neighbours: all but the first find it in the cache.
template <class Shape, RowProduct Kind, int Count, class T>
__global__ void __launch_bounds__(Shape::threads, Count == 8 || Kind == RowProduct::cosine ? 3 : 4)
    multiply_rows(RowsView<const T, MemorySpace::device> rows, std::int64_t tiles,
                  std::int64_t tile_rows, RowProducts products) {
  const int parts = (products.group + Count - 1) / Count;
  const std::int64_t block = blockIdx.x / static_cast<unsigned>(parts);
  const int first_vector = static_cast<int>(blockIdx.x % static_cast<unsigned>(parts)) * Count;
  const HeadTile tile = head_tile(block, tiles, tile_rows, rows.layout());
  if (tile.count == 0) return;
  const HeadView<const T, MemorySpace::device> head = rows.head(tile.head);
  const int channels = Shape::reaches(rows.dim()) * Shape::reach;
  float* staged = SharedCarver().take<float>(Count * channels);
  stage_vectors<Count>(products, tile.head, first_vector, channels,
                       Kind == RowProduct::cosine ? 1.0f : products.scale, staged);
  __syncthreads();
  const bool left =
      multiply_tile<Shape, Kind, Count>(head, tile, products, first_vector, staged, channels);
  if constexpr (Kind == RowProduct::cosine) {
    if (__syncthreads_or(left ? 1 : 0) == 0) return;
    for (int v = first_vector; v < products.group && v < first_vector + Count; ++v) {
      widen_cosines(head, tile, products, tile.head * products.group + v);
    }
  }
}

template <class Shape, RowProduct Kind, int Count, class T>
void launch_row_products(Resources& res, const char* name,
                         const RowsView<const T, MemorySpace::device>& rows,
                         const RowProducts& products) {
  const std::int64_t tile_rows = rows_per_block(res, rows.layout().total(), Shape::step_rows);
  const std::int64_t tiles = tiles_of(rows.layout().longest(), tile_rows);
  const std::int64_t channels = std::int64_t{Shape::reaches(rows.dim())} * Shape::reach;
  launch(res, name, multiply_rows<Shape, Kind, Count, T>,
         rows.heads() * tiles * tiles_of(products.group, Count), Shape::threads,
         shared_bytes<float>(Count * channels), rows, tiles, tile_rows, products);
}

}  // namespace detail

/// Enqueues the products of every row with the vectors of its head. One read of the rows for up to
/// 8 vectors (4 for cosines).
template <RowProduct Kind, class T>
void row_products(Resources& res, const char* name,
                  const RowsView<const T, MemorySpace::device>& rows, const RowProducts& products) {
  constexpr int most = Kind == RowProduct::cosine ? 4 : 8;
  with_row_shape<T>(rows.dim(), [&](auto shape) {
    using Shape = decltype(shape);
    if (products.group == 1) {
      detail::launch_row_products<Shape, Kind, 1>(res, name, rows, products);
    } else if (products.group <= 4) {
      detail::launch_row_products<Shape, Kind, 4>(res, name, rows, products);
    } else {
      detail::launch_row_products<Shape, Kind, most>(res, name, rows, products);
    }
  });
}

}  // namespace kvevict::cuda
