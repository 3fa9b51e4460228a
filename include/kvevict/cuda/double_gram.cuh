// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kvevict/cuda/launch.cuh"

namespace kvevict::cuda {

/// Work along the rows of each head is cut into parts, by the number of rows alone: what is added
/// in which order does not depend on how many heads there are.
struct RowParts {
  std::int64_t rows = 0;      ///< of each head, at least 1
  std::int64_t per_part = 0;  ///< rows of every part but the last
  std::int64_t count = 0;     ///< parts

  /// At most `most` parts of at least `least` rows, a multiple of `step`.
  RowParts(std::int64_t all, std::int64_t least, std::int64_t most, std::int64_t step) : rows(all) {
    const std::int64_t wanted = tiles_of(all, most);
    per_part = tiles_of(wanted > least ? wanted : least, step) * step;
    count = tiles_of(all, per_part);
  }
  /// One part of all rows.
  explicit RowParts(std::int64_t all) : rows(all), per_part(all), count(1) {}

  KVEVICT_HOST_DEVICE std::int64_t size(std::int64_t part) const {
    const std::int64_t left = rows - part * per_part;
    return left < per_part ? left : per_part;
  }
};

/// How the mean and the sum of squares about it of `seen` rows take in those of `added` more at a
/// distance d (Chan, Golub, LeVeque 1979): mean += share * d, squares += theirs + weight * d^2.
struct MeanUpdate {
  double share;
  double weight;

  KVEVICT_HOST_DEVICE MeanUpdate(double seen, double added)
      : share(added / (seen + added)), weight(seen * share) {}
};

namespace detail {

inline constexpr int gram_tile = 64;   // a block computes this many rows and columns of a product
inline constexpr int gram_depth = 32;  // and reads this many rows of the factor at a time
inline constexpr int gram_threads = 256;

/// Tiles of the lower triangle of a matrix of `dim` rows and columns.
inline std::int64_t gram_tiles(std::int64_t dim) {
  const std::int64_t along = tiles_of(dim, gram_tile);
  return along * (along + 1) / 2;
}

/// products[head][part] [dim][dim] = sum of x x^T over the rows x of one part, lower triangle, in
/// double. `read(head, row, channel)` is the element of a row as a float, `first_head` the head of
/// the first block.
///
/// Centred: of (x - mean)(x - mean)^T, and means[head][part][dim]. The rows come in tiles, each
/// centred about its own mean; the distance between that and the mean before it counts as one more
/// row, sqrt(weight) * distance.
template <bool Centred, class Read>
__global__ void __launch_bounds__(gram_threads, 2)
    gram_of_parts(Read read, std::int64_t first_head, RowParts parts, std::int64_t dim,
                  double* means, double* products) {
  constexpr int rows_of_tile = Centred ? gram_depth + 1 : gram_depth;
  constexpr int side = 16;  // threads along one side of a product, each with `own` rows
  constexpr int own = gram_tile / side;
  constexpr int loads = gram_depth * gram_tile / gram_threads;
  KVEVICT_SHARED(double, tiles, [2][rows_of_tile][gram_tile]);
  KVEVICT_SHARED(double, centres, [2][gram_tile]);
  const int t = static_cast<int>(threadIdx.x);
  const std::int64_t along = tiles_of(dim, gram_tile);
  std::int64_t tile = blockIdx.x % (along * (along + 1) / 2);
  const std::int64_t job = blockIdx.x / (along * (along + 1) / 2);
  const std::int64_t head = job / parts.count;
  const std::int64_t part = job % parts.count;
  std::int64_t line = 0;
  while (tile > line) tile -= ++line;
  const std::int64_t corner[2] = {line * gram_tile, tile * gram_tile};

  double sums[own][own] = {};
  double mean = 0.0;  // of the channel that this thread keeps: one of the 2 * gram_tile
  for (std::int64_t done = 0; done < parts.size(part); done += gram_depth) {
    const std::int64_t left = parts.size(part) - done;
    const int n = static_cast<int>(left < gram_depth ? left : gram_depth);
    const auto each_element = [&](auto&& use) {
      // More loads at a time do not fit the registers.
      KVEVICT_NO_UNROLL
      for (int which = 0; which < 2; ++which) {
        const std::int64_t channel = corner[which] + t % gram_tile;
        KVEVICT_UNROLL
        for (int k = 0; k < loads; ++k) {
          const int row = t / gram_tile + k * (gram_threads / gram_tile);
          use(which, row, channel, row < n && channel < dim);
        }
      }
    };
    each_element([&](int which, int row, std::int64_t channel, bool inside) {
      const std::int64_t from = part * parts.per_part + done + row;
      tiles[which][row][t % gram_tile] =
          inside ? static_cast<double>(read(first_head + head, from, channel)) : 0.0;
    });
    __syncthreads();
    if constexpr (Centred) {
      if (t < 2 * gram_tile) {
        const int which = t / gram_tile;
        double sum = 0.0;
        for (int row = 0; row < n; ++row) sum += tiles[which][row][t % gram_tile];
        const MeanUpdate update(static_cast<double>(done), static_cast<double>(n));
        const double centre = sum / static_cast<double>(n);
        const double distance = centre - mean;
        mean += distance * update.share;
        centres[which][t % gram_tile] = centre;
        tiles[which][gram_depth][t % gram_tile] = sqrt(update.weight) * distance;
      }
      __syncthreads();
      each_element([&](int which, int row, std::int64_t, bool inside) {
        if (inside) tiles[which][row][t % gram_tile] -= centres[which][t % gram_tile];
      });
      __syncthreads();
    }
    for (int row = 0; row < rows_of_tile; ++row) {
      double x[own];
      double y[own];
      KVEVICT_UNROLL
      for (int k = 0; k < own; ++k) {
        x[k] = tiles[0][row][t / side + k * side];
        y[k] = tiles[1][row][t % side + k * side];
      }
      KVEVICT_UNROLL
      for (int i = 0; i < own; ++i) {
        KVEVICT_UNROLL
        for (int j = 0; j < own; ++j) sums[i][j] += x[i] * y[j];
      }
    }
    __syncthreads();
  }

  double* product = products + job * dim * dim;
  KVEVICT_UNROLL
  for (int i = 0; i < own; ++i) {
    const std::int64_t r = corner[0] + t / side + i * side;
    KVEVICT_UNROLL
    for (int j = 0; j < own; ++j) {
      const std::int64_t c = corner[1] + t % side + j * side;
      if (r < dim && c <= r) product[r * dim + c] = sums[i][j];
    }
  }
  if constexpr (Centred) {
    if (line == tile && t < gram_tile && corner[0] + t < dim) {
      means[job * dim + corner[0] + t] = mean;
    }
  }
}

}  // namespace detail

/// The lower triangles of the Gram matrices of rows read by `read`, head by head and part by part:
/// products[heads][parts.count][dim][dim]. In double: 2 * dim^2 flops a row, and as many bytes of
/// shared memory.
template <class Read>
void gram_of_parts(Resources& res, const Read& read, std::int64_t heads, const RowParts& parts,
                   std::int64_t dim, double* products) {
  launch(res, "gram_of_parts", detail::gram_of_parts<false, Read>,
         heads * parts.count * detail::gram_tiles(dim), detail::gram_threads, 0, read,
         std::int64_t{0}, parts, dim, static_cast<double*>(nullptr), products);
}

/// The same about the mean of each part, which goes to means[heads][parts.count][dim], for the
/// heads from `first_head` on.
template <class Read>
void covariance_of_parts(Resources& res, const Read& read, std::int64_t first_head,
                         std::int64_t heads, const RowParts& parts, std::int64_t dim, double* means,
                         double* products) {
  launch(res, "covariance_of_parts", detail::gram_of_parts<true, Read>,
         heads * parts.count * detail::gram_tiles(dim), detail::gram_threads, 0, read, first_head,
         parts, dim, means, products);
}

}  // namespace kvevict::cuda
