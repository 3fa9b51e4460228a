// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/row_range.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/cuda/gram_tile.cuh"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/leverage.cuh"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/cuda/row_splits.cuh"

namespace kvevict::cuda {

/// Arguments of the kernels: matrix m of `gram` is made of the roots of block first + m and of the
/// rows of head (first + m) / group.
struct Grams {
  MatrixBatchView<double, MemorySpace::device> gram;
  ScoreView<MemorySpace::device> roots;
  std::int64_t group = 1;
  std::int64_t first = 0;
  const std::uint32_t* largest = nullptr;  ///< bits of the unit of the roots of each matrix
  const std::uint8_t* wanted = nullptr;    ///< which matrices to compute; null: all
  CentredRows centred = {};                ///< for kernels that centre their rows
};

/// How the work is cut. Each head's rows are split by their number alone, and the sums of the
/// splits are added in order, whether every split has blocks of its own or one block runs through
/// all of them: the result is the same bits.
struct GramPlan {
  static constexpr int tile = 64;
  using Splits = RowSplits<2048, 16>;

  std::int64_t matrices;
  std::int64_t tiles;         ///< of the lower triangle
  std::int64_t max_splits;    ///< of a head
  std::int64_t split_blocks;  ///< blocks for the splits of a tile: max_splits, or 1

  /// Splits get blocks of their own where the tiles alone would leave multiprocessors with less
  /// than two: partial sums of at most 2 multiprocessors * 16 * 32 KiB.
  GramPlan(const DeviceLimits& limits, std::int64_t count, std::int64_t dim, std::int64_t longest)
      : matrices(count),
        tiles(tiles_of(dim, tile) * (tiles_of(dim, tile) + 1) / 2),
        max_splits(std::max<std::int64_t>(Splits::most(longest), 1)),
        split_blocks(matrices * tiles < 2 * std::int64_t{limits.multiprocessors} ? max_splits : 1) {
  }
  /// Doubles of partial sums.
  std::int64_t partial_size() const {
    return split_blocks > 1 ? matrices * tiles * split_blocks * tile * tile : 0;
  }
};

namespace detail {

/// Which tile of the lower triangle a block computes.
struct TriangleTile {
  std::int64_t row = 0;
  std::int64_t column = 0;

  __device__ explicit TriangleTile(std::int64_t tile) {
    while (tile > row) tile -= ++row;
    column = tile;
  }
};

/// The root weight of a row in the unit of its head.
template <class Number>
__device__ Number root_in_unit(float root, const std::uint32_t* largest) {
  if (largest == nullptr) return static_cast<Number>(root);
  if constexpr (std::is_same_v<Number, float>) {
    // Not times the inverse, which overflows for a subnormal unit.
    return root / kvevict::detail::bit_cast<float>(*largest);
  } else {
    return inverse_of_root(*largest) * static_cast<double>(root);
  }
}

/// What a block does with the sums of one split: adds them to the matrix, or leaves them to
/// `add_gram_splits`.
struct SplitResult {
  Grams task;
  std::int64_t m;
  std::int64_t first_row;
  std::int64_t first_column;
  bool first;
  bool last;
  double* partial;  ///< of the split, [64][64], or null

  /// Rows [half, half + 32) of the tile, from sums[32][65]. Contains a barrier.
  __device__ void write(int half, double* sums) const {
    constexpr int side = GramPlan::tile;
    constexpr int pitch = side + 1;
    const int thread = static_cast<int>(threadIdx.x);
    KVEVICT_NO_UNROLL
    for (int e = thread; e < 32 * side; e += 128) {
      const int r = e / side;
      const int c = e % side;
      double& sum = sums[r * pitch + c];
      const std::int64_t i = first_row + half + r;
      const std::int64_t j = first_column + c;
      if (partial != nullptr) {
        partial[half * side + e] = sum;
      } else if (i < task.gram.shape[1] && j <= i) {
        double& element = task.gram(m, i, j);
        if (!first) sum = element + sum;
        element = sum;
      }
    }
    if (partial != nullptr || !last) return;
    __syncthreads();
    // The mirror image, in order of its own rows.
    KVEVICT_NO_UNROLL
    for (int e = thread; e < 32 * side; e += 128) {
      const std::int64_t i = first_row + half + e % 32;
      const std::int64_t j = first_column + e / 32;
      if (i < task.gram.shape[1] && j < i) task.gram(m, j, i) = sums[e % 32 * pitch + e / 32];
    }
  }
};

/// One block for a 64 x 64 tile of the lower triangle of one matrix, and one or all splits of the
/// rows. dim^2 flops a row for the triangle (1.1 to 1.5 times that with the tiles on the
/// diagonal, 1.9 for dim 80) and dim elements of the cache, each read by every tile that needs it,
/// from the L2 cache but for the first time: bound by arithmetic, in fp32 or double.
template <class T, class Number, bool Centred>
__global__ void __launch_bounds__(128, 2) gram_tiles(RowsView<const T, MemorySpace::device> values,
                                                     Grams task, GramPlan plan, double* partials) {
  using Tile = GramTile<Number>;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t m = blockIdx.x / (plan.tiles * plan.split_blocks);
  const TriangleTile tile(blockIdx.x / plan.split_blocks % plan.tiles);
  if (task.wanted != nullptr && task.wanted[m] == 0) return;
  const std::int64_t block = task.first + m;
  const auto head = values.head(block / task.group);
  const std::int64_t begin = Centred ? task.centred.range.begin(head.rows) : 0;
  const std::int64_t rows = Centred ? task.centred.range.count(head.rows) : head.rows;
  const float* roots = task.roots.head(block) + begin;
  const std::int64_t length = GramPlan::Splits::length(rows);
  const std::int64_t splits = rows > length ? GramPlan::Splits::count(rows) : 1;
  const bool shared_out = plan.split_blocks > 1;
  const std::int64_t first_split = shared_out ? blockIdx.x % plan.split_blocks : 0;
  if (first_split >= splits) return;
  const std::int64_t end_split = shared_out ? first_split + 1 : splits;

  KVEVICT_SHARED(double2, shared, [Tile::shared_bytes / 16]);
  KVEVICT_SHARED(Number, weights, [Tile::weight_rows]);
  Number* a = reinterpret_cast<Number*>(shared);
  const bool diagonal = tile.row == tile.column;
  Number* b = diagonal ? a : a + Tile::depth * Tile::side;
  const bool whole = in_whole_pieces(head);
  const std::int64_t dim = head.dim;
  const std::int64_t first_row = tile.row * Tile::side;
  const std::int64_t first_column = tile.column * Tile::side;
  // Warps with nothing to compute, outside of the matrix or above the diagonal, only load.
  const bool idle = first_row + Tile::warp_row() >= dim ||
                    first_column + Tile::warp_column() >= dim ||
                    (diagonal && Tile::warp_row() < Tile::warp_column());
  const std::uint32_t* largest = task.largest != nullptr ? task.largest + m : nullptr;

  for (std::int64_t split = first_split; split < end_split; ++split) {
    const std::int64_t end = (split + 1) * length < rows ? (split + 1) * length : rows;
    Tile product;
    product.clear();
    for (std::int64_t row = split * length; row < end; row += Tile::weight_rows) {
      weights[thread] =
          row + thread < end ? root_in_unit<Number>(roots[row + thread], largest) : Number{0};
      for (int k = 0; k < Tile::weight_rows && row + k < end; k += Tile::depth) {
        __syncthreads();
        Tile::stage(head, whole, begin + row + k, begin + end, first_row, weights + k, a);
        if (!diagonal) {
          Tile::stage(head, whole, begin + row + k, begin + end, first_column, weights + k, b);
        }
        __syncthreads();
        if constexpr (Centred) {
          const float* centre = task.centred.of_head(block / task.group, dim);
          Tile::subtract(centre, dim, first_row, weights + k, a);
          if (!diagonal) Tile::subtract(centre, dim, first_column, weights + k, b);
          __syncthreads();
        }
        if (!idle) product.add(a, b);
      }
      __syncthreads();  // the weights have been used
    }
    const SplitResult result{task,
                             m,
                             first_row,
                             first_column,
                             split == 0,
                             split + 1 == splits,
                             shared_out ? partials + blockIdx.x * std::int64_t{4096} : nullptr};
    for (int half = 0; half < Tile::side; half += 32) {
      double* sums = reinterpret_cast<double*>(shared);
      product.store(half, sums);
      __syncthreads();
      result.write(half, sums);
      __syncthreads();
    }
  }
}

/// Adds the partial sums of the splits, one block for each tile.
static __global__ void __launch_bounds__(128)
    add_gram_splits(RowLayout<MemorySpace::device> layout, Grams task, GramPlan plan,
                    const double* partials) {
  constexpr int side = GramPlan::tile;
  const std::int64_t m = blockIdx.x / plan.tiles;
  const TriangleTile tile(blockIdx.x % plan.tiles);
  if (task.wanted != nullptr && task.wanted[m] == 0) return;
  const std::int64_t rows = task.centred.range.count(layout.rows((task.first + m) / task.group));
  const std::int64_t splits =
      rows > GramPlan::Splits::length(rows) ? GramPlan::Splits::count(rows) : 1;
  const double* of_tile = partials + blockIdx.x * plan.split_blocks * side * side;
  for (int e = static_cast<int>(threadIdx.x); e < side * side; e += 128) {
    const std::int64_t i = tile.row * side + e / side;
    const std::int64_t j = tile.column * side + e % side;
    if (i >= task.gram.shape[1] || j > i) continue;
    double total = of_tile[e];
    for (std::int64_t s = 1; s < splits; ++s) total += of_tile[s * side * side + e];
    task.gram(m, i, j) = total;
    task.gram(m, j, i) = total;
  }
}

/// Marks the matrices that fp32 products may have left: those with a trace so small that squares
/// underflowed, so large that they may have overflowed, or not a number. A warp for each.
static __global__ void __launch_bounds__(128)
    mark_grams_out_of_range(MatrixBatchView<const double, MemorySpace::device> gram,
                            std::uint8_t* marks) {
  const std::int64_t m = blockIdx.x * std::int64_t{4} + threadIdx.x / 32;
  if (m >= gram.shape[0]) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  double trace = 0.0;
  for (std::int64_t i = lane; i < gram.shape[1]; i += warp_size) trace += gram(m, i, i);
  trace = reduce_lanes(trace, Sum{});
  // Off the diagonal, and in any part of the rows, |g_ij| <= trace / 2.
  if (lane == 0) marks[m] = trace > 1e-20 && trace < 1e30 ? 0 : 1;
}

}  // namespace detail

/// gram[m] = sum_i root_i^2 v_i v_i^T, both triangles, with products and short sums in `Number`.
/// `partials` holds plan.partial_size() doubles.
template <class Number, class T, bool Centred = false>
void enqueue_grams(Resources& res, const RowsView<const T, MemorySpace::device>& values,
                   const Grams& task, const GramPlan& plan, double* partials) {
  launch(res, "gram_tiles", detail::gram_tiles<T, Number, Centred>,
         plan.matrices * plan.tiles * plan.split_blocks, 128, 0, values, task, plan, partials);
  if (plan.split_blocks > 1) {
    launch(res, "add_gram_splits", detail::add_gram_splits, plan.matrices * plan.tiles, 128, 0,
           values.layout(), task, plan, static_cast<const double*>(partials));
  }
}

/// The same with fp32 products, and in double for the matrices that leave their range: squares of
/// values beyond about 1e15 or below 1e-10. `marks` holds a byte for each matrix.
template <class T>
void enqueue_fast_grams(Resources& res, const RowsView<const T, MemorySpace::device>& values,
                        const Grams& task, const GramPlan& plan, double* partials,
                        std::uint8_t* marks) {
  enqueue_grams<float>(res, values, task, plan, partials);
  launch(res, "mark_grams_out_of_range", detail::mark_grams_out_of_range,
         tiles_of(plan.matrices, 4), 128, 0,
         MatrixBatchView<const double, MemorySpace::device>(task.gram), marks);
  Grams again = task;
  again.wanted = marks;
  enqueue_grams<double>(res, values, again, plan, partials);
}

}  // namespace kvevict::cuda
