// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "kvevict/cuda/load.cuh"
#include "kvevict/cuda/vector.cuh"

namespace kvevict::cuda {

/// The part of one thread in C[64][Columns] += A B^T, computed by the 128 threads of a block from
/// slices A[64][depth] and B[Columns][depth] in shared memory, each row `pitch` numbers after the
/// one before. A thread has rows row(0) .. row(7) and columns column(0) .. column(Columns / 16 -
/// 1), so that 16 bytes of each operand serve 8 or Columns / 16 products per number; the pitch
/// spreads the addresses that a warp reads at once over all banks. Each sum runs through the slices
/// in order: it does not depend on the shape of the tile.
///
/// A block's loop over slices:
///   for (int first = 0; first < dim; first += Product::depth) {
///     __syncthreads();                               // the slices before have been used
///     stage_rows<64>(...); stage_rows<Columns>(...);
///     __syncthreads();
///     product.add(a, b, dim - first);
///   }
/// Bound by fp32 arithmetic: 8 Columns / 16 multiply-adds for 2 + Columns / 64 shared loads of 16
/// bytes and each number of the depth.
template <class Number, int Columns>
struct TileProduct {
  static_assert(Columns % 16 == 0);
  static constexpr int threads = 128;
  static constexpr int rows = 64;
  static constexpr int columns = Columns;
  static constexpr int depth = 32;
  static constexpr int vector = 16 / static_cast<int>(sizeof(Number));
  static constexpr int pitch = depth + vector;
  static constexpr int row_count = 8;
  static constexpr int column_count = Columns / 16;
  /// Numbers of shared memory for both slices.
  static constexpr int slices_size = (rows + Columns) * pitch;

  Number sum[row_count][column_count];

  /// Warps are 2 x 2, lanes 4 x 8.
  __device__ static int row(int i) {
    const int thread = static_cast<int>(threadIdx.x);
    return thread / 64 * 4 + thread % 32 / 8 + 8 * i;
  }
  __device__ static int column(int j) {
    const int thread = static_cast<int>(threadIdx.x);
    return thread / 32 % 2 * 8 + thread % 8 + 16 * j;
  }

  __device__ void clear() {
    KVEVICT_UNROLL
    for (int i = 0; i < row_count; ++i) {
      KVEVICT_UNROLL
      for (int j = 0; j < column_count; ++j) sum[i][j] = Number{0};
    }
  }

  /// Adds the products of a slice of which `left` numbers (or all, if it is more) are not zero.
  /// With `First`, columns below 16 First stay as they are: B has nothing but zeros there.
  template <int First = 0>
  __device__ void add(const Number* a, const Number* b, int left) {
    add_terms<First>(a, b, left, [](Number x, Number y) { return x * y; });
  }

  /// The same with (a - b)^2 for each product a b: squared distances of rows of A and of B.
  __device__ void add_squared_differences(const Number* a, const Number* b, int left) {
    add_terms<0>(a, b, left, [](Number x, Number y) { return (x - y) * (x - y); });
  }

 private:
  template <int First, class Term>
  __device__ void add_terms(const Number* a, const Number* b, int left, Term term) {
    const Number* a_row = a + row(0) * pitch;
    const Number* b_row = b + column(0) * pitch;
    const int end = left < depth ? left : depth;
    KVEVICT_NO_UNROLL
    for (int k = 0; k < end; k += vector) {
      Number of_b[column_count][vector];
      KVEVICT_UNROLL
      for (int j = First; j < column_count; ++j) load_vector(b_row + 16 * j * pitch + k, of_b[j]);
      KVEVICT_UNROLL
      for (int i = 0; i < row_count; ++i) {
        Number of_a[vector];
        load_vector(a_row + 8 * i * pitch + k, of_a);
        KVEVICT_UNROLL
        for (int n = 0; n < vector; ++n) {
          KVEVICT_UNROLL
          for (int j = First; j < column_count; ++j) sum[i][j] += term(of_a[n], of_b[j][n]);
        }
      }
    }
  }
};

/// Numbers of shared memory that `sum_columns` works in.
inline constexpr int sum_columns_size = 64 * 17;

/// Adds up what the 16 threads that share each row of a tile product hold: `of_row[i]` belongs to
/// row(i). Thread r < 64 gets the sum of row r, in the order of the threads; the others get 0.
/// Contains barriers; `shared` may be used again after the next one.
template <class Number>
__device__ Number sum_columns(const Number (&of_row)[8], Number* shared) {
  using Product = TileProduct<float, 16>;
  __syncthreads();
  KVEVICT_UNROLL
  for (int i = 0; i < 8; ++i) shared[Product::row(i) * 17 + Product::column(0)] = of_row[i];
  __syncthreads();
  Number sum{0};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < 64) {
    for (int c = 0; c < 16; ++c) sum += shared[thread * 17 + c];
  }
  return sum;
}

/// Of kernels over rows of T: how many blocks a multiprocessor is to hold, `blocks` for elements.
/// Finding the scales of rows takes registers, which would spill.
template <class T>
constexpr int resident_blocks(int blocks) {
  return ScaledElement<T> ? (blocks + 1) / 2 : blocks;
}

/// One factor for all rows that are staged.
struct SameScale {
  float scale = 1.0f;
  __device__ float operator()(int) const { return scale; }
};

/// `stage_rows` for rows in whole pieces.
template <int Rows, class T, class RowOf, class ScaleOf>
__device__ void stage_pieces(RowOf row_of, int dim, int first, float* to, const ScaleOf& scale_of) {
  using Product = TileProduct<float, 16>;
  const int thread = static_cast<int>(threadIdx.x);
  constexpr int size = piece_size<T>;
  constexpr int pieces = Product::depth / size;
  constexpr int step = Product::threads / pieces;  // rows between those of one thread
  constexpr int at_once = 4;                       // loads on their way before the first is used
  const int piece = thread % pieces;
  const bool inside = first + piece * size < dim;
  for (int start = thread / pieces; start < Rows; start += at_once * step) {
    Piece bits[at_once];
    KVEVICT_UNROLL
    for (int n = 0; n < at_once; ++n) {
      const T* row = inside && start + n * step < Rows ? row_of(start + n * step) : nullptr;
      bits[n] = row != nullptr ? __ldg(reinterpret_cast<const Piece*>(row) + (first / size + piece))
                               : Piece{0, 0, 0, 0};
    }
    KVEVICT_UNROLL
    for (int n = 0; n < at_once; ++n) {
      if (start + n * step >= Rows) break;
      float values[size];
      widen<T>(bits[n], values);
      const float scale = scale_of(start + n * step);
      float* place = to + (start + n * step) * Product::pitch + piece * size;
      KVEVICT_UNROLL
      for (int k = 0; k < size; k += 4) {
        const float scaled[4] = {scale * values[k], scale * values[k + 1], scale * values[k + 2],
                                 scale * values[k + 3]};
        store_vector(scaled, place + k);
      }
    }
  }
}

/// Writes channels [first, first + 32) of `Rows` rows, times `scale_of(r)`, as floats to
/// `to`[row][pitch], by all threads of a block of 128. `row_of(r)` points to channel 0 of row r, or
/// is null where there is none: zeros, as behind the last channel. `whole` says that rows are in
/// whole pieces; see load.cuh.
template <int Rows, class T, class RowOf, class ScaleOf = SameScale>
__device__ void stage_rows(RowOf row_of, std::int64_t channel_stride, int dim, bool whole,
                           int first, float* to, const ScaleOf& scale_of = {}) {
  using Product = TileProduct<float, 16>;
  const int thread = static_cast<int>(threadIdx.x);
  if (!Element<T> || !whole) {
    const int k = thread % Product::depth;
    for (int r = thread / Product::depth; r < Rows; r += Product::threads / Product::depth) {
      const T* row = first + k < dim ? row_of(r) : nullptr;
      to[r * Product::pitch + k] =
          row != nullptr ? scale_of(r) * channel_of<T>(row, first + k, channel_stride) : 0.0f;
    }
    return;
  }
  if constexpr (Element<T>) stage_pieces<Rows, T>(row_of, dim, first, to, scale_of);
}

/// Rows [first, first + count) of a head for `stage_rows`.
template <class T>
struct HeadRows {
  HeadView<const T, MemorySpace::device> head;
  std::int64_t first;
  int count;

  __device__ const T* operator()(int r) const { return r < count ? head.row(first + r) : nullptr; }
};

/// What the rows of a head from `first` on are to be multiplied by, for `stage_rows`.
template <class T>
struct RowScales {
  const HeadView<const T, MemorySpace::device>& head;
  std::int64_t first;

  __device__ float operator()(int r) const { return head.scale_of(first + r); }
};

/// Matrix m of a batch as rows.
template <class T>
__device__ HeadView<T, MemorySpace::device> matrix_rows(
    const MatrixBatchView<T, MemorySpace::device>& matrices, std::int64_t m) {
  HeadView<T, MemorySpace::device> rows;
  rows.data = &matrices(m, 0, 0);
  rows.rows = matrices.shape[1];
  rows.dim = matrices.shape[2];
  rows.row_stride = matrices.stride[1];
  rows.channel_stride = matrices.stride[2];
  return rows;
}

/// The number of columns of a tile product that wastes least on `columns` columns in all; between
/// equals the larger. Calls `use(std::integral_constant<int, ...>)`.
template <class Use>
void with_tile_columns(std::int64_t columns, Use&& use) {
  const auto padded = [&](std::int64_t size) { return (columns + size - 1) / size * size; };
  if (padded(128) <= padded(96) && padded(128) <= padded(64)) {
    use(std::integral_constant<int, 128>{});
  } else if (padded(96) <= padded(64)) {
    use(std::integral_constant<int, 96>{});
  } else {
    use(std::integral_constant<int, 64>{});
  }
}

}  // namespace kvevict::cuda
