// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/core/row_layout.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"

namespace kvevict::cpu {

/// Rows that a thread takes at a time, so that also a few long heads keep all threads busy: enough
/// of them that neither starting on a piece nor adding its sum to those before counts.
inline constexpr std::int64_t piece_rows = 2048;
static_assert(piece_rows % tile_rows == 0, "tiles, and with them results, must not change");

/// Calls `body(head, begin, end, worker)` for all rows of all heads piece by piece, on several
/// threads. For rows that have nothing to do with each other.
template <class Body>
void for_each_piece(Resources& res, const RowLayout<>& layout, Body&& body) {
  const std::int64_t pieces = (layout.longest() + piece_rows - 1) / piece_rows;
  res.parallel_for(layout.heads() * pieces, [&](std::int64_t index, int worker) {
    const std::int64_t head = index / pieces;
    const std::int64_t begin = index % pieces * piece_rows;
    const std::int64_t end = std::min(begin + piece_rows, layout.rows(head));
    if (begin < end) body(head, begin, end, worker);
  });
}

/// Whether the sums of all heads can be under way at once, with one slot of memory for each thread.
inline bool few_heads(const Resources& res, std::int64_t heads) { return heads < res.threads(); }

/// Sums over the rows of one head, on one thread: `sum(begin, end)` of a piece, then `join(begin)`
/// to what came before.
template <class Sum, class Join>
void sum_pieces_of_head(std::int64_t rows, Sum&& sum, Join&& join) {
  for (std::int64_t begin = 0; begin < rows; begin += piece_rows) {
    sum(begin, std::min(begin + piece_rows, rows));
    join(begin);
  }
}

/// Sums over the rows of every head, of few heads by all threads together: `sum(head, begin, end,
/// worker, slot)` of a piece, into the memory of that slot, one of as many as there are threads,
/// then `join(head, begin, slot)`, in the order of a head's pieces. Whoever sums which piece, the
/// result is the same to the bit, also as that of sum_pieces_of_head.
template <class Sum, class Join>
void sum_pieces(Resources& res, const RowLayout<>& layout, Sum&& sum, Join&& join) {
  if (!few_heads(res, layout.heads())) {
    res.parallel_for(layout.heads(), [&](std::int64_t head, int worker) {
      sum_pieces_of_head(
          layout.rows(head),
          [&](std::int64_t begin, std::int64_t end) { sum(head, begin, end, worker, worker); },
          [&](std::int64_t begin) { join(head, begin, worker); });
    });
    return;
  }
  for (std::int64_t head = 0; head < layout.heads(); ++head) {
    const std::int64_t rows = layout.rows(head);
    const std::int64_t wave = res.threads() * piece_rows;
    for (std::int64_t first = 0; first < rows; first += wave) {
      const std::int64_t pieces = (std::min(wave, rows - first) + piece_rows - 1) / piece_rows;
      res.parallel_for(pieces, [&](std::int64_t slot, int worker) {
        const std::int64_t begin = first + slot * piece_rows;
        sum(head, begin, std::min(begin + piece_rows, rows), worker, slot);
      });
      for (std::int64_t slot = 0; slot < pieces; ++slot) {
        join(head, first + slot * piece_rows, slot);
      }
    }
  }
}

}  // namespace kvevict::cpu
