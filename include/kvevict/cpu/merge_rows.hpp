// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/math/merge_weights.hpp"
#include "kvevict/math/random.hpp"
#include "kvevict/ops/merge_rows.hpp"

namespace kvevict::cpu {

/// An evicted row and the kept one that it is most similar to.
struct EvictedRow {
  std::int32_t row;
  std::int32_t target;  ///< which of the kept rows, -1: none
  float cosine;
};

/// What one head needs, and a thread has.
struct MergeScratch {
  float* evicted_tile;  ///< of keys
  float* kept_tile;     ///< of keys of length one
  float* products;      ///< [tile_rows][tile_rows]
  double* sum;          ///< [dim of values]
  EvictedRow* evicted;  ///< [rows], by row
  EvictedRow* merged;   ///< [rows], by target, then by row
};

/// Rows `row_of(0)` ... `row_of(count - 1)` as floats, times `unit_scale` of their lengths.
template <class T, class RowOf>
auto load_units(const HeadView<T>& head, std::int64_t count, const RowOf& row_of, float* to) {
  auto units = map_matrix(to, count, head.dim);
  for (std::int64_t i = 0; i < count; ++i) {
    load_row(head, row_of(i), to + i * head.dim);
    units.row(i) *= unit_scale(row_norm(units.row(i)));
  }
  return units;
}

/// The length of one row, as row_norms has it.
template <class T>
float length_of_row(const HeadView<T>& head, std::int64_t row, float* buffer) {
  load_row(head, row, buffer);
  return row_norm(VectorMap<const float>(buffer, head.dim));
}

/// Finds for the `count` rows of `evicted` which of the kept rows is most similar.
template <class T>
void find_most_similar(const HeadView<T>& keys, const std::int32_t* kept, std::int64_t kept_count,
                       EvictedRow* evicted, std::int64_t count, const MergeScratch& scratch) {
  for (std::int64_t first = 0; first < count; first += tile_rows) {
    EvictedRow* const rows = evicted + first;
    const std::int64_t row_count = std::min(tile_rows, count - first);
    const auto units = load_units(
        keys, row_count, [&](std::int64_t i) { return rows[i].row; }, scratch.evicted_tile);
    for (std::int64_t start = 0; start < kept_count; start += tile_rows) {
      const std::int64_t columns = std::min(tile_rows, kept_count - start);
      const auto of_kept = load_units(
          keys, columns, [&](std::int64_t j) { return kept[start + j]; }, scratch.kept_tile);
      auto products = map_matrix(scratch.products, row_count, columns);
      products.noalias() = units * of_kept.transpose();
      for (std::int64_t i = 0; i < row_count; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          if (!(products(i, j) > rows[i].cosine)) continue;
          rows[i].cosine = products(i, j);
          rows[i].target = static_cast<std::int32_t>(start + j);
        }
      }
    }
    for (std::int64_t i = 0; i < row_count; ++i) rows[i].cosine = std::min(rows[i].cosine, 1.0f);
  }
}

/// Writes the rows that are merged to `merged`, ordered by target and then by row, and returns how
/// many there are.
inline std::int64_t order_by_target(EvictedRow* evicted, std::int64_t count,
                                    const MergeOptions& options, EvictedRow* merged) {
  const std::int64_t most = merged_rows(count, options.fraction);
  if (most < count) {
    std::nth_element(evicted, evicted + most, evicted + count,
                     [](const EvictedRow& a, const EvictedRow& b) {
                       return a.cosine != b.cosine ? a.cosine > b.cosine : a.row < b.row;
                     });
  }
  const EvictedRow* const end = std::copy_if(evicted, evicted + most, merged,
                                             [](const EvictedRow& e) { return e.target >= 0; });
  const std::int64_t number = end - merged;
  std::sort(merged, merged + number, [](const EvictedRow& a, const EvictedRow& b) {
    return a.target != b.target ? a.target < b.target : a.row < b.row;
  });
  return number;
}

/// Adds `weight` times a row to a sum in double.
template <class T>
void add_row(const HeadView<T>& head, std::int64_t row, double weight, double* sum) {
  const T* from = head.row(row);
  for (std::int64_t c = 0; c < head.dim; ++c) {
    sum[c] += weight * static_cast<double>(static_cast<float>(from[c * head.channel_stride]));
  }
}

/// Writes a sum times `scale` to a row.
template <class T>
void write_row(const double* sum, double scale, const HeadView<T>& head, std::int64_t row) {
  T* to = head.row(row);
  for (std::int64_t c = 0; c < head.dim; ++c) {
    to[c * head.channel_stride] = saturated<T>(sum[c] * scale);
  }
}

/// Merges the rows of one target, [begin, end), into kept row `row`.
template <class T>
void merge_into(const HeadView<T>& values, std::int64_t row, const EvictedRow* begin,
                const EvictedRow* end, float threshold, const MergeScratch& scratch) {
  const float kept_length = length_of_row(values, row, scratch.kept_tile);
  std::fill_n(scratch.sum, values.dim, 0.0);
  double total = 0.0;
  for (const EvictedRow* e = begin; e != end; ++e) {
    const double weight = merge_weight(
        e->cosine, threshold, length_of_row(values, e->row, scratch.evicted_tile), kept_length);
    if (weight == 0.0) continue;
    total += weight;
    add_row(values, e->row, weight, scratch.sum);
  }
  if (total == 0.0) return;
  add_row(values, row, 1.0, scratch.sum);
  write_row(scratch.sum, 1.0 / (1.0 + total), values, row);
}

/// The products of the keys, about as fast as Eigen multiplies, then a read of the values.
template <class T>
void merge_rows_impl(Resources& res, SelectionView<> kept, const RowsView<const T>& keys,
                     const RowsView<T>& values, const MergeOptions& options) {
  const std::int64_t tile = tile_size(std::max(keys.dim(), values.dim()));
  const std::int64_t longest = keys.layout().longest();
  const std::int64_t threads = res.threads();
  constexpr std::int64_t square = tile_rows * tile_rows;
  WorkspaceScope scope(res.workspace());
  float* tiles = scope.carve<float>("merge_rows.tiles", threads * 2 * tile);
  float* products = scope.carve<float>("merge_rows.products", threads * square);
  double* sums = scope.carve<double>("merge_rows.sums", threads * values.dim());
  auto* evicted = scope.carve<EvictedRow>("merge_rows.evicted", threads * longest);
  auto* merged = scope.carve<EvictedRow>("merge_rows.merged", threads * longest);
  if (res.workspace().counting()) return;
  res.parallel_for(keys.heads(), [&](std::int64_t h, int worker) {
    const MergeScratch scratch{tiles + worker * 2 * tile,  tiles + (worker * 2 + 1) * tile,
                               products + worker * square, sums + worker * values.dim(),
                               evicted + worker * longest, merged + worker * longest};
    const HeadView<const T> head = keys.head(h);
    const HeadView<T> of_values = values.head(h);
    const std::int32_t* const indices = kept.head(h);
    std::int64_t count = 0;
    for (std::int64_t i = 0, j = 0; i < head.rows; ++i) {
      if (j < kept.count(h) && indices[j] == i) {
        ++j;
      } else {
        scratch.evicted[count++] = {static_cast<std::int32_t>(i), -1,
                                    -std::numeric_limits<float>::infinity()};
      }
    }
    find_most_similar(head, indices, kept.count(h), scratch.evicted, count, scratch);
    const std::int64_t number = order_by_target(scratch.evicted, count, options, scratch.merged);
    for (const EvictedRow* e = scratch.merged; e != scratch.merged + number;) {
      const EvictedRow* const next =
          std::find_if(e, static_cast<const EvictedRow*>(scratch.merged + number),
                       [&](const EvictedRow& other) { return other.target != e->target; });
      merge_into(of_values, indices[e->target], e, next, options.threshold, scratch);
      e = next;
    }
  });
}

/// Writes for each row of a head the part of it that each of the kept rows behind it receives, 0
/// for kept ones.
inline void following_shares(const std::int32_t* kept, std::int64_t kept_count, std::int64_t rows,
                             const PositionRow<>& positions, const float* attention,
                             std::uint64_t head, const FollowingMergeOptions& options,
                             double* shares) {
  for (std::int64_t i = 0, j = 0; i < rows; ++i) {
    shares[i] = 0.0;
    if (j < kept_count && kept[j] == i) {
      ++j;
      continue;
    }
    const std::int64_t count = std::min(options.span, kept_count - j);
    double behind = 0.0;
    for (std::int64_t n = 0; n < count; ++n) behind += static_cast<double>(attention[kept[j + n]]);
    const auto position = static_cast<std::uint64_t>(std::int64_t{positions[i]});
    shares[i] =
        following_share(attention[i], behind, count, random_uniform(options.seed, head, position));
  }
}

template <class T>
void merge_following_rows_impl(Resources& res, SelectionView<> kept, const Positions<>& positions,
                               ScoreView<> attention, const RowsView<T>& values,
                               const FollowingMergeOptions& options) {
  const std::int64_t longest = values.layout().longest();
  const std::int64_t threads = res.threads();
  WorkspaceScope scope(res.workspace());
  double* all_shares = scope.carve<double>("merge_following_rows.shares", threads * longest);
  double* sums = scope.carve<double>("merge_following_rows.sums", threads * values.dim());
  if (res.workspace().counting()) return;
  res.parallel_for(values.heads(), [&](std::int64_t h, int worker) {
    double* const shares = all_shares + worker * longest;
    double* const sum = sums + worker * values.dim();
    const HeadView<T> head = values.head(h);
    const std::int32_t* const indices = kept.head(h);
    following_shares(indices, kept.count(h), head.rows, positions.row(h, values.layout()),
                     attention.head(h), static_cast<std::uint64_t>(h), options, shares);
    for (std::int64_t j = 0; j < kept.count(h); ++j) {
      // Evicted rows between the span-th kept row before j and j itself reach as far as j.
      const std::int64_t begin = j < options.span ? 0 : indices[j - options.span] + std::int64_t{1};
      bool any = false;
      std::fill_n(sum, head.dim, 0.0);
      for (std::int64_t i = begin; i < indices[j]; ++i) {
        if (shares[i] == 0.0) continue;
        any = true;
        add_row(head, i, shares[i], sum);
      }
      if (!any) continue;
      add_row(head, indices[j], 1.0, sum);
      write_row(sum, 1.0, head, indices[j]);
    }
  });
}

}  // namespace kvevict::cpu
