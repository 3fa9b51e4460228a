// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kvevict/cuda/row_products.cuh"
#include "kvevict/cuda/row_splits.cuh"
#include "kvevict/ops/key_direction.hpp"

namespace kvevict::cuda {

namespace detail {

/// A head's rows are summed in splits of 256 rows, or of so many times 256 as make at most 64.
using DirectionSplits = RowSplits<256, 64>;

/// Sums of rows of length one [head][split][dim].
struct DirectionSums {
  double* data;
  std::int64_t splits;  ///< room of each head
  std::int64_t dim;

  __device__ double& operator()(std::int64_t head, std::int64_t split, std::int64_t c) const {
    return data[(head * splits + split) * dim + c];
  }
};

/// 1 / |row|_2 of the rows of a set, in all lanes that share a row; 0 for a row of length zero.
template <class Shape, class T>
__device__ void inverse_norms(const HeadView<const T, MemorySpace::device>& head,
                              const HeadTile& tile, const RowReader<Shape, T>& rows, int first,
                              const RowSet<Shape>& set, double (&inverse)[Shape::rows]) {
  float squares[Shape::rows] = {};
  if (rows.reaches() == 1) {
    add_squares<Shape, T>(set, squares);
  } else {
    for (int reach = 0; reach < rows.reaches(); ++reach) {
      RowSet<Shape> part;
      rows.load(first, reach, part);
      add_squares<Shape, T>(part, squares);
    }
  }
  KVEVICT_UNROLL
  for (int r = 0; r < Shape::rows; ++r) {
    const float squared = reduce_lanes<Shape::lanes>(squares[r], Sum{});
    const int row = first + Shape::row(r);
    if (squares_in_range(squared)) {
      inverse[r] = static_cast<double>(1.0f / sqrtf(squared));
    } else {
      const double norm = row < rows.rows() ? wide_norm(head, tile.first + row) : 0.0;
      inverse[r] = norm != 0.0 ? 1.0 / norm : 0.0;
    }
  }
}

/// Writes the sum of a split's rows of length one: each lane its own channels, then the lanes of a
/// warp that hold the same channels, then the warps, in one order.
template <class Shape, class T>
__device__ void sum_split(const HeadView<const T, MemorySpace::device>& head, const HeadTile& split,
                          std::int64_t index, const DirectionSums& out) {
  constexpr int warps = Shape::threads / warp_size;
  KVEVICT_SHARED(double, of_warp, [warps][Shape::reach]);
  const int thread = static_cast<int>(threadIdx.x);
  const RowReader<Shape, T> rows(head, split);
  // A longer row is read again for each reach: its sums would not fit the registers.
  for (int reach = 0; reach < rows.reaches(); ++reach) {
    double sums[Shape::channels] = {};
    RowSet<Shape> next;
    rows.load(0, reach, next);
    for (int first = 0; first < rows.rows(); first += Shape::step_rows) {
      const RowSet<Shape> set = next;
      if (first + Shape::step_rows < rows.rows()) rows.load(first + Shape::step_rows, reach, next);
      double inverse[Shape::rows];
      inverse_norms(head, split, rows, first, set, inverse);
      KVEVICT_UNROLL
      for (int r = 0; r < Shape::rows; ++r) {
        float values[Shape::channels];
        widen_row<Shape, T>(set, r, values);
        KVEVICT_UNROLL
        for (int n = 0; n < Shape::channels; ++n) {
          sums[n] += static_cast<double>(values[n]) * inverse[r];
        }
      }
    }
    KVEVICT_UNROLL
    for (int n = 0; n < Shape::channels; ++n) {
      KVEVICT_UNROLL
      for (int offset = warp_size / 2; offset >= Shape::lanes; offset /= 2) {
        sums[n] += __shfl_xor_sync(full_warp, sums[n], offset);
      }
      if (thread % warp_size < Shape::lanes) {
        of_warp[thread / warp_size][Shape::lane() * Shape::channels + n] = sums[n];
      }
    }
    __syncthreads();
    for (int c = thread; c < Shape::reach; c += Shape::threads) {
      const std::int64_t channel = std::int64_t{reach} * Shape::reach + c;
      if (channel >= head.dim) continue;
      double sum = of_warp[0][c];
      KVEVICT_UNROLL
      for (int w = 1; w < warps; ++w) sum += of_warp[w][c];
      out(split.head, index, channel) = sum;
    }
    __syncthreads();
  }
}

/// One block for each split of a head.
template <class Shape, class T>
__global__ void __launch_bounds__(Shape::threads, 4)
    sum_directions(RowsView<const T, MemorySpace::device> rows, DirectionSums out) {
  const std::int64_t block = blockIdx.x;
  const std::int64_t length = DirectionSplits::length(rows.rows(block / out.splits));
  const HeadTile split = head_tile(block, out.splits, length, rows.layout());
  if (split.count == 0) return;
  sum_split<Shape>(rows.head(split.head), split, block % out.splits, out);
}

/// One block for each head: the splits one after another, then the mean.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    mean_of_directions(RowLayout<MemorySpace::device> layout, DirectionSums sums,
                       MatrixView<float, MemorySpace::device> direction) {
  constexpr int ahead = 8;  // loads on their way
  const std::int64_t h = blockIdx.x;
  const std::int64_t rows = layout.rows(h);
  const std::int64_t splits = DirectionSplits::count(rows);
  double squared = 0.0;
  for (std::int64_t c = threadIdx.x; c < sums.dim; c += Threads) {
    double sum = 0.0;
    for (std::int64_t s = 0; s < splits; s += ahead) {
      double parts[ahead];
      KVEVICT_UNROLL
      for (int i = 0; i < ahead; ++i) parts[i] = s + i < splits ? sums(h, s + i, c) : 0.0;
      KVEVICT_UNROLL
      for (int i = 0; i < ahead; ++i) sum += parts[i];
    }
    sums(h, 0, c) = sum;  // for the same thread below
    squared += sum * sum;
  }
  const double norm = sqrt(reduce_block<Threads>(squared, Sum{}));
  // What directions that cancel leave of rounding is no direction: far below what fp32 keys can
  // mean.
  const bool cancelled = norm <= 1e-13 * static_cast<double>(rows);
  const double weight = rows > 0 && !cancelled ? 1.0 / static_cast<double>(rows) : 0.0;
  for (std::int64_t c = threadIdx.x; c < sums.dim; c += Threads) {
    direction(h, c) = static_cast<float>(sums(h, 0, c) * weight);
  }
}

/// One block for each vector: scales it to length one, the zero vector stays zero.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    normalise(MatrixView<const float, MemorySpace::device> from,
              MatrixView<float, MemorySpace::device> to) {
  const std::int64_t v = blockIdx.x;
  double squared = 0.0;
  for (std::int64_t c = threadIdx.x; c < from.shape[1]; c += Threads) {
    const double x = static_cast<double>(from(v, c));
    squared += x * x;
  }
  const double norm = sqrt(reduce_block<Threads>(squared, Sum{}));
  const double divisor = norm != 0.0 ? norm : 1.0;
  for (std::int64_t c = threadIdx.x; c < from.shape[1]; c += Threads) {
    to(v, c) = static_cast<float>(static_cast<double>(from(v, c)) / divisor);
  }
}

}  // namespace detail

/// One read of the rows, at the speed of memory where the device has double-precision units; the
/// sums of the splits add at most 3 % for rows of 128 numbers of 16 bits.
template <class T>
void mean_direction_impl(Resources& res, const RowsView<T, MemorySpace::device>& rows,
                         MatrixView<float, MemorySpace::device> direction) {
  using Element = std::remove_const_t<T>;
  constexpr int threads = 128;
  WorkspaceScope scope(res.workspace());
  // At least one, where the splits of a head are added up.
  const std::int64_t splits =
      std::max<std::int64_t>(1, detail::DirectionSplits::most(rows.layout().longest()));
  double* sums = scope.carve<double>("mean_direction.sums", rows.heads() * splits * rows.dim());
  if (res.workspace().counting()) return;
  const RowsView<const Element, MemorySpace::device> read = rows;
  const detail::DirectionSums out{sums, splits, rows.dim()};
  with_row_shape<Element>(rows.dim(), [&](auto shape) {
    using Shape = decltype(shape);
    launch(res, "mean_direction.splits", detail::sum_directions<Shape, Element>,
           rows.heads() * splits, Shape::threads, 0, read, out);
  });
  launch(res, "mean_direction", detail::mean_of_directions<threads>, rows.heads(), threads, 0,
         rows.layout(), out, direction);
}

/// One read of the rows for up to 8 directions of a head.
template <class T>
void cosine_impl(Resources& res, const RowsView<T, MemorySpace::device>& rows,
                 MatrixView<const float, MemorySpace::device> directions, std::int64_t group,
                 float scale, ScoreView<MemorySpace::device> scores) {
  using Element = std::remove_const_t<T>;
  constexpr int threads = 128;
  WorkspaceScope scope(res.workspace());
  const std::int64_t count = directions.shape[0];
  const auto units = MatrixView<float, MemorySpace::device>::packed(
      scope.carve<float>("cosine.directions", count * rows.dim()), count, rows.dim());
  if (res.workspace().counting()) return;
  launch(res, "cosine.directions", detail::normalise<threads>, count, threads, 0, directions,
         units);
  const RowsView<const Element, MemorySpace::device> read = rows;
  row_products<RowProduct::cosine>(
      res, "cosine", read, RowProducts{units, static_cast<int>(group), scale, false, scores});
}

}  // namespace kvevict::cuda
