// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/cuda/load.cuh"
#include "kvevict/cuda/vector.cuh"

namespace kvevict::cuda {

/// The part of one thread in C[64][64] += X^T Y, computed by the 128 threads of a block from
/// slices X[depth][64] and Y[depth][64] in shared memory: 8 rows and 4 columns. Warps are 2 x 2,
/// each with 32 x 32 numbers of C. Per number of the depth, 3 (double: 6) shared loads of 16 bytes
/// for 32 multiply-adds.
///
/// Floats: beside one row that outweighs the others, every further row loses up to half a unit of
/// that row's products, always the same way for rows that are alike, and the inverse of a matrix
/// s2 I + M with relative noise c amplifies what is lost by up to its condition number, dim / c. So
/// sums run over 8 rows only, and those are added with compensation, which costs a third more
/// additions. Of a leverage that is a relative 0.7 * 2^-24 dim / c at most, whatever the rows are;
/// the sums of a split of the rows are added in double by the caller.
template <class Number>
struct GramTile {
  static constexpr bool is_float = std::is_same_v<Number, float>;
  static constexpr int side = 64;
  static constexpr int weight_rows = 128;  ///< whose weights are at hand at a time
  static constexpr int run_rows = 8;       ///< of a sum of floats
  static constexpr int depth = is_float ? 32 : 16;
  static constexpr int result_pitch = side + 1;
  /// Of shared memory: two slices, and later 32 rows of results.
  static constexpr int shared_bytes = 32 * result_pitch * 8;
  static_assert(2 * depth * side * static_cast<int>(sizeof(Number)) <= shared_bytes);
  static constexpr int vector = is_float ? 4 : 2;

  Number sum[8][4];
  Number carried[8][4];

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warp_row() { return static_cast<int>(threadIdx.x) / 64 * 32; }
  __device__ static int warp_column() { return static_cast<int>(threadIdx.x) / 32 % 2 * 32; }
  /// Numbers that are read together are adjacent, and so are those of neighbours.
  __device__ static int row(int i) {
    return warp_row() + lane() / 8 * vector + i % vector + i / vector * 4 * vector;
  }
  __device__ static int column(int j) {
    return warp_column() + lane() % 8 * vector + j % vector + j / vector * 8 * vector;
  }

  __device__ void clear() {
    KVEVICT_UNROLL
    for (int i = 0; i < 8; ++i) {
      KVEVICT_UNROLL
      for (int j = 0; j < 4; ++j) {
        sum[i][j] = carried[i][j] = Number{0};
      }
    }
  }

  __device__ void add(const Number* x, const Number* y) {
    const Number* x_start = x + row(0);
    const Number* y_start = y + column(0);
    KVEVICT_NO_UNROLL
    for (int k = 0; k < depth; k += run_rows) {
      KVEVICT_UNROLL
      for (int n = 0; n < run_rows; ++n)
        add_row(x_start + (k + n) * side, y_start + (k + n) * side);
      carry();
    }
  }

  /// Writes rows [first, first + 32) of the sums to `to`[32][result_pitch].
  __device__ void store(int first, double* to) const {
    if (warp_row() != first) return;
    KVEVICT_UNROLL
    for (int i = 0; i < 8; ++i) {
      KVEVICT_UNROLL
      for (int j = 0; j < 4; ++j) {
        to[(row(i) - first) * result_pitch + column(j)] =
            static_cast<double>(carried[i][j]) + static_cast<double>(sum[i][j]);
      }
    }
  }

  /// Writes channels [channel, channel + 64) of `depth` rows from `first` on, each times its
  /// weight, to `to`[depth][64]; rows from `end` on become zeros.
  template <class T>
  __device__ static void stage(const HeadView<const T, MemorySpace::device>& head, bool whole,
                               std::int64_t first, std::int64_t end, std::int64_t channel,
                               const Number* weights, Number* to) {
    const int thread = static_cast<int>(threadIdx.x);
    if (!Element<T> || !whole) {
      const int c = thread % side;
      for (int r = thread / side; r < depth; r += 128 / side) {
        const bool present = first + r < end && channel + c < head.dim;
        const float value = present ? head.value(first + r, channel + c) : 0.0f;
        to[r * side + c] = static_cast<Number>(value) * weights[r];
      }
      return;
    }
    if constexpr (Element<T>) stage_pieces<T>(head, first, end, channel, weights, to);
  }

  /// Turns staged rows x, each times its weight, into x - centre times it, `centre`[dim].
  __device__ static void subtract(const float* centre, std::int64_t dim, std::int64_t channel,
                                  const Number* weights, Number* staged) {
    KVEVICT_NO_UNROLL
    for (int e = static_cast<int>(threadIdx.x); e < depth * side; e += 128) {
      const std::int64_t c = channel + e % side;
      if (c < dim) staged[e] -= static_cast<Number>(centre[c]) * weights[e / side];
    }
  }

 private:
  /// `stage` for rows in whole pieces.
  template <class T>
  __device__ static void stage_pieces(const HeadView<const T, MemorySpace::device>& head,
                                      std::int64_t first, std::int64_t end, std::int64_t channel,
                                      const Number* weights, Number* to) {
    const int thread = static_cast<int>(threadIdx.x);
    constexpr int size = piece_size<T>;
    constexpr int pieces = side / size;
    constexpr int loads = depth * pieces / 128;
    const int piece = thread % pieces;
    const int start = thread / pieces;
    const bool inside = channel + piece * size < head.dim;
    Piece bits[loads];
    KVEVICT_UNROLL
    for (int n = 0; n < loads; ++n) {
      const std::int64_t row = first + start + n * (128 / pieces);
      bits[n] =
          inside && row < end ? load_piece(head.row(row) + channel, piece) : Piece{0, 0, 0, 0};
    }
    KVEVICT_UNROLL
    for (int n = 0; n < loads; ++n) {
      const int r = start + n * (128 / pieces);
      const Number weight = weights[r];
      float values[size];
      widen<T>(bits[n], values);
      KVEVICT_UNROLL
      for (int k = 0; k < size; k += vector) {
        Number scaled[vector];
        KVEVICT_UNROLL
        for (int v = 0; v < vector; ++v) scaled[v] = static_cast<Number>(values[k + v]) * weight;
        store_vector(scaled, to + r * side + piece * size + k);
      }
    }
  }

  __device__ void add_row(const Number* x, const Number* y) {
    Number of_x[8 / vector][vector];
    Number of_y[4 / vector][vector];
    KVEVICT_UNROLL
    for (int i = 0; i < 8 / vector; ++i) load_vector(x + i * 4 * vector, of_x[i]);
    KVEVICT_UNROLL
    for (int j = 0; j < 4 / vector; ++j) load_vector(y + j * 8 * vector, of_y[j]);
    KVEVICT_UNROLL
    for (int i = 0; i < 8; ++i) {
      KVEVICT_UNROLL
      for (int j = 0; j < 4; ++j) {
        sum[i][j] += of_x[i / vector][i % vector] * of_y[j / vector][j % vector];
      }
    }
  }

  /// Moves `sum` into `carried`; the next sum begins with what that is rounded by.
  __device__ void carry() {
    if constexpr (is_float) {
      KVEVICT_UNROLL
      for (int i = 0; i < 8; ++i) {
        KVEVICT_UNROLL
        for (int j = 0; j < 4; ++j) {
          const float total = carried[i][j] + sum[i][j];
          const float added = total - carried[i][j];
          sum[i][j] = (carried[i][j] - (total - added)) + (sum[i][j] - added);
          carried[i][j] = total;
        }
      }
    }
  }
};

}  // namespace kvevict::cuda
