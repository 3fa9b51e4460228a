// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/key_direction.cuh"
#include "kvevict/cuda/row_norms.cuh"
#include "kvevict/cuda/row_products.cuh"
#include "kvevict/cuda/tile_product.cuh"
#include "kvevict/ops/key_similarity.hpp"

namespace kvevict::cuda {

/// The latest row similar to another one, and how similar it is; none: -1.
struct LatestSimilar {
  std::int32_t row;
  float cosine;
};

namespace detail {

__device__ inline float inverse_length(float norm) { return norm == 0.0f ? 0.0f : 1.0f / norm; }

/// Two factors one after the other, so that quantised numbers round as the floats that they are.
struct TwoFactors {
  float first;
  float second;
  friend __device__ float operator*(const TwoFactors& factors, float x) {
    return factors.second * (factors.first * x);
  }
};

/// Brings the rows of a tile to length one: products of two lengths may leave fp32.
template <class T>
struct UnitScale {
  const float* inverse;
  RowScales<T> scales;
  __device__ auto operator()(int r) const {
    if constexpr (Element<T>) {
      return inverse[r];
    } else {
      return TwoFactors{scales(r), inverse[r]};
    }
  }
};

/// What a thread of `latest_similar` shares of its columns with the others of a row.
inline constexpr int similar_pitch = 17;

/// One block for 64 rows of a head: products with 64 rows at a time from the last on, until each
/// has found its own. 2 dim flops for each pair of rows, bound by fp32 arithmetic.
template <class T>
__global__ void __launch_bounds__(128, 3)
    latest_similar(RowsView<const T, MemorySpace::device> rows, std::int64_t tiles,
                   ScoreView<MemorySpace::device> norms, float threshold, LatestSimilar* latest) {
  using Product = TileProduct<float, 64>;
  const int thread = static_cast<int>(threadIdx.x);
  const HeadTile tile = head_tile(blockIdx.x, tiles, Product::rows, rows.layout());
  if (tile.count == 0) return;
  const auto head = rows.head(tile.head);
  const float* lengths = norms.head(tile.head);
  KVEVICT_SHARED(float4, slices, [Product::slices_size / 4]);
  KVEVICT_SHARED(LatestSimilar, shared, [64 * similar_pitch]);
  KVEVICT_SHARED(float, inverse, [Product::rows]);
  float* a = reinterpret_cast<float*>(slices);
  float* b = a + Product::rows * Product::pitch;
  const int count = static_cast<int>(tile.count);
  const int dim = static_cast<int>(head.dim);
  const bool whole = in_whole_pieces(head);
  if (thread < Product::rows) {
    inverse[thread] = thread < count ? inverse_length(lengths[tile.first + thread]) : 0.0f;
  }
  LatestSimilar own{-1, 0.0f};
  for (std::int64_t start = (head.rows - 1) / 64 * 64; start >= 0; start -= 64) {
    const std::int64_t left = head.rows - start;
    const int columns = static_cast<int>(left < 64 ? left : 64);
    Product product;
    product.clear();
    for (int k = 0; k < dim; k += Product::depth) {
      __syncthreads();
      stage_rows<64, T>(HeadRows<T>{head, tile.first, count}, head.channel_stride, dim, whole, k, a,
                        UnitScale<T>{inverse, RowScales<T>{head, tile.first}});
      stage_rows<64, T>(HeadRows<T>{head, start, columns}, head.channel_stride, dim, whole, k, b,
                        RowScales<T>{head, start});
      __syncthreads();
      product.add(a, b, dim - k);
    }
    KVEVICT_UNROLL
    for (int i = 0; i < Product::row_count; ++i) {
      const int row = Product::row(i);
      LatestSimilar found{-1, 0.0f};
      KVEVICT_UNROLL
      for (int j = 0; j < Product::column_count; ++j) {
        const int column = Product::column(j);
        if (row >= count || column >= columns || start + column == tile.first + row) continue;
        const float cosine =
            within_one(product.sum[i][j] * inverse_length(lengths[start + column]));
        if (cosine > threshold && column > found.row) found = {column, cosine};
      }
      shared[row * similar_pitch + Product::column(0)] = found;
    }
    __syncthreads();
    if (thread < count && own.row < 0) {
      for (int c = 0; c < 16; ++c) {
        const LatestSimilar& found = shared[thread * similar_pitch + c];
        if (found.row > own.row) own = found;
      }
      if (own.row >= 0) own.row += static_cast<std::int32_t>(start);
    }
    if (__syncthreads_and(thread >= count || own.row >= 0 ? 1 : 0) != 0) break;
  }
  if (thread < count) latest[rows.layout().offset(tile.head) + tile.first + thread] = own;
}

/// One block for 128 rows of a head, which looks through all of them: takes from each mean its row
/// itself and the rows whose latest similar one it is, in order, in double.
static __global__ void __launch_bounds__(128)
    finish_similarity(ScoreView<MemorySpace::device> norms, std::int64_t tiles,
                      const LatestSimilar* latest, ScoreView<MemorySpace::device> out) {
  const HeadTile tile = head_tile(blockIdx.x, tiles, 128, out.layout);
  if (tile.count == 0) return;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t rows = out.layout.rows(tile.head);
  const LatestSimilar* of_head = latest + out.layout.offset(tile.head);
  const std::int64_t j = tile.first + thread;
  KVEVICT_SHARED(LatestSimilar, part, [128]);
  double exempt = 0.0;
  for (std::int64_t first = 0; first < rows; first += 128) {
    LatestSimilar found{-1, 0.0f};
    if (first + thread < rows) found = of_head[first + thread];
    part[thread] = found;
    // Most rows have their latest similar one near the end: elsewhere there is nothing to add.
    const bool own = found.row >= tile.first && found.row < tile.first + tile.count;
    if (__syncthreads_or(own ? 1 : 0) == 0) continue;
    const int count = static_cast<int>(rows - first < 128 ? rows - first : 128);
    for (int i = 0; i < count; ++i) {
      if (part[i].row == j) exempt += static_cast<double>(part[i].cosine);
    }
    __syncthreads();
  }
  if (thread >= tile.count) return;
  const float inverse = inverse_length(norms.head(tile.head)[j]);
  const double itself = inverse != 0.0f ? 1.0 : 0.0;
  float& score = out.head(tile.head)[j];
  score = static_cast<float>(static_cast<double>(score) * static_cast<double>(inverse) -
                             (itself + exempt) / static_cast<double>(rows));
}

}  // namespace detail

/// Besides the products a read of the rows for their lengths, one for the mean direction and one
/// for the products with it. Workspace: 12 bytes for each row, and that of mean_direction.
template <class T>
void mean_similarity_impl(Resources& res, const RowsView<T, MemorySpace::device>& rows,
                          float threshold, ScoreView<MemorySpace::device> out) {
  using Element = std::remove_const_t<T>;
  const RowLayout<MemorySpace::device>& layout = rows.layout();
  const std::int64_t heads = rows.heads();
  WorkspaceScope scope(res.workspace());
  const auto direction = MatrixView<float, MemorySpace::device>::packed(
      scope.carve<float>("mean_similarity.direction", heads * rows.dim()), heads, rows.dim());
  const ScoreView<MemorySpace::device> norms{
      scope.carve<float>("mean_similarity.norms", layout.total()), layout};
  auto* latest = scope.carve<LatestSimilar>("mean_similarity.latest", layout.total());
  mean_direction_impl(res, rows, direction);
  if (res.workspace().counting()) return;
  const RowsView<const Element, MemorySpace::device> read = rows;
  row_norms_impl(res, rows, 1.0f, norms);
  row_products<RowProduct::dot>(res, "mean_similarity.products", read,
                                RowProducts{direction, 1, 1.0f, false, out});
  const std::int64_t tiles = tiles_of(layout.longest(), 64);
  launch(res, "latest_similar", detail::latest_similar<Element>, heads * tiles, 128, 0, read, tiles,
         norms, threshold, latest);
  const std::int64_t out_tiles = tiles_of(layout.longest(), 128);
  launch(res, "finish_similarity", detail::finish_similarity, heads * out_tiles, 128, 0, norms,
         out_tiles, static_cast<const LatestSimilar*>(latest), out);
}

}  // namespace kvevict::cuda
