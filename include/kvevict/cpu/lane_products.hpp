// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kvevict/cpu/lanes.hpp"

namespace kvevict::cpu {

// Products of matrices as small as tiles. A library's product first copies both operands into its
// own order, which for operands that are used once or twice is a good part of its time; here lanes
// run along the rows of the second operand where they lie, and numbers of the first are broadcast.

/// A register of T, and how many it holds.
template <class T>
using Lanes [[gnu::vector_size(lane_count * 4)]] = T;
template <class T>
inline constexpr std::int64_t lanes_of = lane_count * 4 / static_cast<std::int64_t>(sizeof(T));

/// Rows and registers of a block of sums: tall blocks where there are 32 registers, else as many
/// sums as 16 registers hold beside the columns and a factor.
inline constexpr bool many_registers = rows_at_once >= 16;
inline constexpr int product_rows = many_registers ? 8 : 4;
inline constexpr int product_vectors = many_registers ? 2 : 3;
/// Terms that a block adds up before it is stored, so that the columns stay in the first-level
/// cache.
inline constexpr std::int64_t product_depth = 256;

/// A matrix to be read in any direction: entry (r, i) is data[r * row + i * step].
template <class T>
struct LeftOperand {
  const T* data;
  std::int64_t row;
  std::int64_t step;
};

/// Which entries of a product are written.
enum class ProductPart {
  whole,
  lower  ///< column <= row
};

/// A register of numbers, or as many as there are, with zeros behind them.
template <bool whole, class T>
Lanes<T> load_some(const T* from, std::int64_t count) {
  Lanes<T> lanes;
  if constexpr (whole) {
    std::memcpy(&lanes, from, sizeof lanes);
  } else {
    T some[lanes_of<T>] = {};
    std::copy_n(from, count, some);
    std::memcpy(&lanes, some, sizeof lanes);
  }
  return lanes;
}

/// c(first + r, at ...) += sign sum_i a(first + r, i) b[i][at ...] for `rows` entries r and
/// `vectors` registers of columns, or one that is not `whole` and has `count` of them; up to the
/// diagonal for ProductPart::lower.
template <int rows, int vectors, bool whole, class T>
void add_product_block(const LeftOperand<T>& a, const T* b, std::int64_t b_stride,
                       std::int64_t depth, std::int64_t first, std::int64_t at, std::int64_t count,
                       T sign, ProductPart part, T* c, std::int64_t c_stride) {
  constexpr std::int64_t lanes = lanes_of<T>;
  Lanes<T> sums[rows][vectors] = {};
  const T* left = a.data + first * a.row;
  const T* right = b + at;
  for (std::int64_t i = 0; i < depth; ++i, left += a.step, right += b_stride) {
    Lanes<T> columns[vectors];
    unroll<vectors>([&](auto v) { columns[v] = load_some<whole>(right + v * lanes, count); });
    unroll<rows>([&](auto r) {
      const T factor = left[r * a.row];
      unroll<vectors>([&](auto v) { sums[r][v] += columns[v] * factor; });
    });
  }
  // By a copy, and one that is not of the registers as they are: compilers would keep them in
  // memory throughout, where the loops below can index them.
  T values[rows][vectors * lanes];
  unroll<rows>([&](auto r) {
    unroll<vectors>([&](auto v) {
      const Lanes<T> added = sums[r][v] * sign;
      std::memcpy(values[r] + v * lanes, &added, sizeof added);
    });
  });
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t to_diagonal = first + r + 1 - at;
    const std::int64_t width = part == ProductPart::lower ? std::min(count, to_diagonal) : count;
    T* to = c + (first + r) * c_stride + at;
    for (std::int64_t j = 0; j < width; ++j) to[j] += values[r][j];
  }
}

/// c [rows][columns] += sign a [rows][depth] b [depth][columns], sign being 1 or -1. Sums are of T,
/// in an order that depends on the depth alone.
template <class T>
void add_product(const LeftOperand<T>& a, const T* b, std::int64_t b_stride, std::int64_t rows,
                 std::int64_t columns, std::int64_t depth, T sign, ProductPart part, T* c,
                 std::int64_t c_stride) {
  constexpr std::int64_t lanes = lanes_of<T>;
  for (std::int64_t begin = 0; begin < depth; begin += product_depth) {
    const std::int64_t terms = std::min(product_depth, depth - begin);
    const LeftOperand<T> left{a.data + begin * a.step, a.row, a.step};
    const T* right = b + begin * b_stride;
    const auto add_columns = [&]<int vectors, bool whole>(std::int64_t at, std::int64_t count) {
      const auto add_block = [&]<int some>(std::int64_t first) {
        if (part == ProductPart::lower && at >= first + some) return;
        add_product_block<some, vectors, whole>(left, right, b_stride, terms, first, at, count,
                                                sign, part, c, c_stride);
      };
      std::int64_t first = 0;
      for (; first + product_rows <= rows; first += product_rows) {
        add_block.template operator()<product_rows>(first);
      }
      for (; first < rows; ++first) add_block.template operator()<1>(first);
    };
    std::int64_t at = 0;
    for (; at + product_vectors * lanes <= columns; at += product_vectors * lanes) {
      add_columns.template operator()<product_vectors, true>(at, product_vectors * lanes);
    }
    for (; at + lanes <= columns; at += lanes) {
      add_columns.template operator()<1, true>(at, lanes);
    }
    if (at < columns) add_columns.template operator()<1, false>(at, columns - at);
  }
}

/// gram [dim][dim] += tile^T tile, its lower half alone, for a tile [count][dim].
template <class T>
void add_gram_of_tile(const T* tile, std::int64_t tile_stride, std::int64_t count, std::int64_t dim,
                      T* gram, std::int64_t gram_stride) {
  add_product(LeftOperand<T>{tile, 1, tile_stride}, tile, tile_stride, dim, dim, count, T{1},
              ProductPart::lower, gram, gram_stride);
}

}  // namespace kvevict::cpu
