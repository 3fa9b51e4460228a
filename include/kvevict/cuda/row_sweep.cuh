// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cuda/launch.cuh"
#include "kvevict/cuda/load.cuh"
#include "kvevict/cuda/reduce.cuh"

namespace kvevict::cuda {

/// How the threads of a block share rows of T that they read once from memory: `Lanes` adjacent
/// lanes read a row together, 8 adjacent channels each, and several rows at a time, so that every
/// lane has four loads of 16 bytes on their way. What is read together is one reach; a longer row
/// takes several. Which lane sums which channels depends on the dimension alone: a row has the same
/// products, bit by bit, in every type that holds its numbers.
template <int Lanes, class T>
struct RowShape {
  static constexpr int lanes = Lanes;
  static constexpr int channels = 8;  ///< of a lane
  static constexpr int pieces = channels / piece_size<T>;
  static constexpr int rows = 4 / pieces;  ///< of a lane at a time
  static constexpr int reach = Lanes * channels;
  static constexpr int threads = 128;
  static constexpr int row_step = warp_size / Lanes;  ///< between the rows of a lane
  static constexpr int warp_rows = row_step * rows;
  static constexpr int step_rows = threads / Lanes * rows;  ///< of a block at a time

  /// Row r of those that this lane reads, counted from the first of the block's step. Adjacent
  /// groups of lanes read adjacent rows.
  __device__ static int row(int r) {
    const int thread = static_cast<int>(threadIdx.x);
    const int group = thread % warp_size / Lanes;
    return thread / warp_size * warp_rows + r * row_step + group;
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % Lanes; }
  KVEVICT_HOST_DEVICE static int reaches(std::int64_t dim) {
    return static_cast<int>((dim + reach - 1) / reach);
  }
};

/// Calls `use(shape)` with the shape for rows of `dim` channels.
template <class T, class Use>
void with_row_shape(std::int64_t dim, Use&& use) {
  if (dim <= 64) {
    use(RowShape<8, T>{});
  } else if (dim <= 128) {
    use(RowShape<16, T>{});
  } else {
    use(RowShape<32, T>{});
  }
}

/// Rows of a head that one block goes through, where rows are independent: as many blocks as keep
/// every multiprocessor busy, and no more, since what a block prepares is read again by each.
inline std::int64_t rows_per_block(const Resources& res, std::int64_t rows,
                                   std::int64_t step_rows) {
  const std::int64_t blocks = 16 * std::max(1, res.limits().multiprocessors);
  return step_rows * std::clamp<std::int64_t>(rows / (step_rows * blocks), 1, 16);
}

/// What a lane reads at a time.
template <class Shape>
struct RowSet {
  Piece pieces[Shape::rows][Shape::pieces];
};

/// The rows of a tile, read by all threads of a block in steps; rows are counted from the first of
/// the tile.
template <class Shape, class T>
class RowReader {
 public:
  __device__ RowReader(const HeadView<const T, MemorySpace::device>& head, const HeadTile& tile)
      : head_(head),
        first_(tile.first),
        own_(start_of_lane(head, tile)),
        rows_(static_cast<int>(tile.count)),
        dim_(static_cast<int>(head.dim)),
        whole_(in_whole_pieces(head)) {}

  __device__ int rows() const { return rows_; }
  __device__ int reaches() const { return Shape::reaches(dim_); }

  /// Rows of the step that begins at `first`; what lies outside the tile is 0. Contains barriers.
  __device__ void load(int first, int reach, RowSet<Shape>& set) const {
    if constexpr (Element<T>) {
      if (whole_) {
        load_whole(first, reach, set);
        return;
      }
    }
    load_elements(first, reach, set);
  }

 private:
  __device__ static const T* start_of_lane(const HeadView<const T, MemorySpace::device>& head,
                                           const HeadTile& tile) {
    if constexpr (Element<T>) {
      return head.data + Shape::lane() * Shape::channels +
             (head.paged() ? 0 : (tile.first + Shape::row(0)) * head.row_stride);
    } else {
      return nullptr;  // read channel by channel
    }
  }

  __device__ void load_whole(int first, int reach, RowSet<Shape>& set) const {
    const int channel = reach * Shape::reach;
    const int rows_left = rows_ - Shape::row(0);
    const int channels_left = dim_ - Shape::lane() * Shape::channels;
    KVEVICT_UNROLL
    for (int r = 0; r < Shape::rows; ++r) {
      const int row = first + r * Shape::row_step;  // the same in all threads
      std::int64_t offset = row * head_.row_stride;
      if (head_.paged() && row < rows_left) offset = head_.offset(first_ + row + Shape::row(0));
      const T* start = own_ + offset + channel;
      KVEVICT_UNROLL
      for (int p = 0; p < Shape::pieces; ++p) {
        const bool inside = row < rows_left && channel + p * piece_size<T> < channels_left;
        set.pieces[r][p] = inside ? load_piece(start, p) : Piece{0, 0, 0, 0};
      }
    }
  }

  /// Adjacent threads read adjacent channels, then each lane takes its pieces from shared memory.
  __device__ void load_elements(int first, int reach, RowSet<Shape>& set) const {
    constexpr int row_pieces = Shape::reach / piece_size<T>;
    KVEVICT_SHARED(Piece, staged, [Shape::step_rows][row_pieces]);
    auto* elements = reinterpret_cast<ElementBits<T>*>(&staged[0][0]);
    KVEVICT_NO_UNROLL
    for (int i = static_cast<int>(threadIdx.x); i < Shape::step_rows * Shape::reach;
         i += Shape::threads) {
      const int row = first + i / Shape::reach;
      const int channel = reach * Shape::reach + i % Shape::reach;
      elements[i] = row < rows_ && channel < dim_ ? load_bits<T>(head_, first_ + row, channel)
                                                  : ElementBits<T>{0};
    }
    __syncthreads();
    KVEVICT_UNROLL
    for (int r = 0; r < Shape::rows; ++r) {
      KVEVICT_UNROLL
      for (int p = 0; p < Shape::pieces; ++p) {
        set.pieces[r][p] = staged[Shape::row(r)][Shape::lane() * Shape::pieces + p];
      }
    }
    __syncthreads();
  }

  HeadView<const T, MemorySpace::device> head_;
  std::int64_t first_;  ///< row of the head
  /// Where this lane begins to read rows in whole pieces: in the first of its rows, or in row 0 of
  /// page 0.
  const T* own_;
  int rows_;
  int dim_;
  bool whole_;
};

/// Calls `use(first, reach, set)` in all threads of a block for every step of rows and, within a
/// step, every reach of its rows. The next set is on its way while one is used.
template <class Shape, class T, class Use>
__device__ void sweep_rows(const RowReader<Shape, T>& rows, Use&& use) {
  const int reaches = rows.reaches();
  RowSet<Shape> next;
  rows.load(0, 0, next);
  for (int first = 0; first < rows.rows(); first += Shape::step_rows) {
    for (int reach = 0; reach < reaches; ++reach) {
      const RowSet<Shape> set = next;
      const bool last = reach + 1 == reaches;
      const int following = last ? first + Shape::step_rows : first;
      if (following < rows.rows()) rows.load(following, last ? 0 : reach + 1, next);
      use(first, reach, set);
    }
  }
}

/// Whether a sum of squares in fp32 can be trusted: neither overflowed nor made of underflowed
/// squares.
KVEVICT_HOST_DEVICE inline bool squares_in_range(float squared) {
  return squared > 1e-30f && squared < 1e37f;
}

/// |row|_2 in double, for rows whose squares leave the range of fp32: rare, and so one thread reads
/// the row again.
template <class T>
__device__ double wide_norm(const HeadView<const T, MemorySpace::device>& head, std::int64_t row) {
  const T* channels = head.row(row);
  const float scale = head.scale_of(row);
  double squared = 0.0;
  KVEVICT_NO_UNROLL
  for (std::int64_t c = 0; c < head.dim; ++c) {
    const auto x = static_cast<double>(scale * channel_of<T>(channels, c, head.channel_stride));
    squared += x * x;
  }
  return sqrt(squared);
}

/// The 8 channels of row r of a set.
template <class Shape, class T>
__device__ void widen_row(const RowSet<Shape>& set, int r, float (&values)[Shape::channels]) {
  KVEVICT_UNROLL
  for (int p = 0; p < Shape::pieces; ++p) {
    float part[piece_size<T>];
    widen<T>(set.pieces[r][p], part);
    KVEVICT_UNROLL
    for (int n = 0; n < piece_size<T>; ++n) values[p * piece_size<T> + n] = part[n];
  }
}

/// Adds the squares of a lane's channels to the sums of its rows.
template <class Shape, class T>
__device__ void add_squares(const RowSet<Shape>& set, float (&squares)[Shape::rows]) {
  KVEVICT_UNROLL
  for (int r = 0; r < Shape::rows; ++r) {
    float values[Shape::channels];
    widen_row<Shape, T>(set, r, values);
    KVEVICT_UNROLL
    for (int n = 0; n < Shape::channels; ++n) squares[r] += values[n] * values[n];
  }
}

}  // namespace kvevict::cuda
