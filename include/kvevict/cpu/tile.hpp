// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/element.hpp"
#include "kvevict/core/head_view.hpp"
#include "kvevict/core/queries.hpp"
#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/widen.hpp"

namespace kvevict::cpu {

/// Rows that are converted at a time: at dim 128 a float tile is 64 KiB, within a second-level
/// cache.
inline constexpr std::int64_t tile_rows = 128;

/// Floats of one tile of rows.
inline std::int64_t tile_size(std::int64_t dim) { return tile_rows * dim; }

/// Channels as floats, without a scale that the view has.
template <class T>
void widen_row(const T* from, std::int64_t stride, std::int64_t dim, float* to) {
  if constexpr (BlockStorage<T>) {
    for (std::int64_t b = 0; b < dim / channels_of<T>; ++b) {
      for (std::int64_t c = 0; c < channels_of<T>; ++c) to[b * channels_of<T> + c] = from[b][c];
    }
  } else if (stride == 1) {
    widen(from, dim, to);
  } else {
    for (std::int64_t c = 0; c < dim; ++c) to[c] = static_cast<float>(from[c * stride]);
  }
}

/// Row i of a head as floats.
template <class T>
void load_row(const HeadView<T>& head, std::int64_t i, float* to) {
  widen_row(head.row(i), head.channel_stride, head.dim, to);
  if constexpr (ScaledElement<std::remove_const_t<T>>) {
    const float scale = head.scale_of(i);
    for (std::int64_t c = 0; c < head.dim; ++c) to[c] *= scale;
  }
}

/// Rows [first, first + count) of a head as a row-major float matrix: the cache itself where it is
/// float with adjacent channels and no page ends between, else converted into
/// `buffer` [tile_rows * dim].
template <class T>
MatrixMap<const float> load_tile(const HeadView<T>& head, std::int64_t first, std::int64_t count,
                                 float* buffer) {
  const std::int64_t dim = head.dim;
  if constexpr (std::is_same_v<std::remove_const_t<T>, float>) {
    if (head.channel_stride == 1 && head.run(first, count) == count) {
      return map_matrix<const float>(head.row(first), count, dim, head.row_stride);
    }
  }
  for (std::int64_t i = 0; i < count;) {
    const T* row = head.row(first + i);
    for (const std::int64_t end = i + head.run(first + i, count - i); i < end; ++i) {
      widen_row(row, head.channel_stride, dim, buffer + i * dim);
      row += head.row_stride;
    }
  }
  if constexpr (ScaledElement<std::remove_const_t<T>>) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float scale = head.scale_of(first + i);
      for (std::int64_t c = 0; c < dim; ++c) buffer[i * dim + c] *= scale;
    }
  }
  return map_matrix<const float>(buffer, count, dim);
}

/// Calls `use(first, tile)` for the rows [begin, end) of a head, in order; `first` counts from
/// `begin`.
template <class T, class Use>
void for_each_tile(const HeadView<T>& head, std::int64_t begin, std::int64_t end, float* buffer,
                   Use&& use) {
  for (std::int64_t first = begin; first < end; first += tile_rows) {
    const std::int64_t count = std::min(tile_rows, end - first);
    use(first - begin, load_tile(head, first, count, buffer));
  }
}

/// The same for all rows.
template <class T, class Use>
void for_each_tile(const HeadView<T>& head, float* buffer, Use&& use) {
  for_each_tile(head, 0, head.rows, buffer, use);
}

/// Converts `count` queries of one head from `first` on to floats, [count][dim] densely.
inline void load_queries(const QueriesView<>& queries, std::int64_t head, std::int64_t first,
                         std::int64_t count, float* to) {
  const std::int64_t dim = queries.dim();
  for (std::int64_t i = 0; i < count; ++i, to += dim) {
    const void* row = queries.row(head, first + i);
    switch (queries.type()) {
      case ElementType::float32:
        widen_row(static_cast<const float*>(row), 1, dim, to);
        break;
      case ElementType::float16:
        widen_row(static_cast<const half*>(row), 1, dim, to);
        break;
      case ElementType::bfloat16:
        widen_row(static_cast<const bfloat16*>(row), 1, dim, to);
        break;
    }
  }
}

/// Whether a sum of squares in fp32 can be trusted: neither overflowed nor made of underflowed
/// squares.
inline bool squares_in_range(float squared) { return squared > 1e-30f && squared < 1e37f; }

/// |row|_2, also for entries whose squares leave the range of fp32.
template <class Row>
double wide_norm(const Row& row) {
  const float squared = row.squaredNorm();
  if (squares_in_range(squared)) return static_cast<double>(std::sqrt(squared));
  return row.template cast<double>().norm();
}

/// The same in fp32: infinite where the norm itself exceeds its range.
template <class Row>
float row_norm(const Row& row) {
  return static_cast<float>(wide_norm(row));
}

}  // namespace kvevict::cpu
