// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cuda/row_norms.cuh"
#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/cuda/tile_product.cuh"
#include "kvevict/math/merge_weights.hpp"
#include "kvevict/math/random.hpp"
#include "kvevict/ops/merge_rows.hpp"

namespace kvevict::cuda {

/// The kept row, by its place among them, that an evicted one is most similar to. None, or a row
/// that is kept itself: -1.
struct MostSimilar {
  std::int32_t target;
  float cosine;
};

namespace detail {

/// Kept rows that one block merges into.
inline constexpr int merge_tile = 16;
inline constexpr int merge_threads = 128;

/// The place of `row` among the kept rows, or of the first one behind it.
__device__ inline std::int64_t place_among(const std::int32_t* kept, std::int64_t count,
                                           std::int64_t row) {
  std::int64_t begin = 0;
  while (begin < count) {
    const std::int64_t middle = begin + (count - begin) / 2;
    if (kept[middle] < row) {
      begin = middle + 1;
    } else {
      count = middle;
    }
  }
  return begin;
}

/// Kept rows [first, first + count) of a head for `stage_rows`.
template <class T>
struct KeptKeys {
  HeadView<const T, MemorySpace::device> head;
  const std::int32_t* kept;  ///< from the first one on
  int count;

  __device__ const T* operator()(int r) const { return r < count ? head.row(kept[r]) : nullptr; }
};

/// One block for 64 rows of a head: products with 64 kept rows at a time. 2 dim flops for each pair
/// of an evicted and a kept row (and those of tiles that contain both), bound by fp32 arithmetic.
template <class T>
__global__ void __launch_bounds__(128, 3)
    most_similar(SelectionView<MemorySpace::device> kept,
                 RowsView<const T, MemorySpace::device> keys, std::int64_t tiles,
                 ScoreView<MemorySpace::device> norms, MostSimilar* similar) {
  using Product = TileProduct<float, 64>;
  constexpr int pitch = 17;
  const int thread = static_cast<int>(threadIdx.x);
  const HeadTile tile = head_tile(blockIdx.x, tiles, Product::rows, keys.layout());
  if (tile.count == 0) return;
  const auto head = keys.head(tile.head);
  const std::int32_t* indices = kept.head(tile.head);
  const std::int64_t kept_count = kept.count(tile.head);
  const float* lengths = norms.head(tile.head);
  KVEVICT_SHARED(float4, slices, [Product::slices_size / 4]);
  KVEVICT_SHARED(MostSimilar, shared, [64 * pitch]);
  float* a = reinterpret_cast<float*>(slices);
  float* b = a + Product::rows * Product::pitch;
  const int count = static_cast<int>(tile.count);
  const int dim = static_cast<int>(head.dim);
  const bool whole = in_whole_pieces(head);
  MostSimilar own{-1, -INFINITY};
  bool evicted = false;
  if (thread < count) {
    const std::int64_t place = place_among(indices, kept_count, tile.first + thread);
    evicted = place == kept_count || indices[place] != tile.first + thread;
  }
  if (__syncthreads_or(evicted ? 1 : 0) != 0) {
    for (std::int64_t start = 0; start < kept_count; start += 64) {
      const std::int64_t left = kept_count - start;
      const int columns = static_cast<int>(left < 64 ? left : 64);
      Product product;
      product.clear();
      for (int k = 0; k < dim; k += Product::depth) {
        __syncthreads();
        stage_rows<64, T>(
            HeadRows<T>{head, tile.first, count}, head.channel_stride, dim, whole, k, a,
            [&](int r) { return r < count ? unit_scale(lengths[tile.first + r]) : 0.0f; });
        stage_rows<64, T>(
            KeptKeys<T>{head, indices + start, columns}, head.channel_stride, dim, whole, k, b,
            [&](int r) { return r < columns ? unit_scale(lengths[indices[start + r]]) : 0.0f; });
        __syncthreads();
        product.add(a, b, dim - k);
      }
      KVEVICT_UNROLL
      for (int i = 0; i < Product::row_count; ++i) {
        MostSimilar best{-1, -INFINITY};
        KVEVICT_UNROLL
        for (int j = 0; j < Product::column_count; ++j) {
          const int column = Product::column(j);
          if (column < columns && product.sum[i][j] > best.cosine) {
            best = {column, product.sum[i][j]};
          }
        }
        shared[Product::row(i) * pitch + Product::column(0)] = best;
      }
      __syncthreads();
      if (evicted) {
        // Columns of a thread lie 16 apart, so the first of equals has to be looked for.
        MostSimilar best{-1, -INFINITY};
        for (int c = 0; c < 16; ++c) {
          const MostSimilar& of = shared[thread * pitch + c];
          const bool first = of.cosine == best.cosine && of.target < best.target;
          if (of.target >= 0 && (of.cosine > best.cosine || first)) best = of;
        }
        if (best.cosine > own.cosine) {
          own = {static_cast<std::int32_t>(start) + best.target, best.cosine};
        }
      }
    }
  }
  if (thread >= count) return;
  if (own.cosine > 1.0f) own.cosine = 1.0f;
  similar[keys.layout().offset(tile.head) + tile.first + thread] = own;
}

/// weights[row] = the weight with which a row is merged, 0 for those that are not. One block for
/// 128 rows of a head; where not all are merged each looks through all of them to find its rank.
static __global__ void __launch_bounds__(merge_threads)
    merge_weights(SelectionView<MemorySpace::device> kept, const MostSimilar* similar,
                  std::int64_t tiles, MergeOptions options, ScoreView<MemorySpace::device> norms,
                  double* weights) {
  const HeadTile tile = head_tile(blockIdx.x, tiles, merge_threads, norms.layout);
  if (tile.count == 0) return;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t offset = norms.layout.offset(tile.head);
  const std::int64_t rows = norms.layout.rows(tile.head);
  const std::int64_t most = merged_rows(rows - kept.count(tile.head), options.fraction);
  const std::int64_t row = tile.first + thread;
  MostSimilar own{-1, -INFINITY};
  if (thread < tile.count) own = similar[offset + row];
  std::int64_t rank = 0;
  if (options.fraction < 1.0) {
    KVEVICT_SHARED(MostSimilar, part, [merge_threads]);
    for (std::int64_t first = 0; first < rows; first += merge_threads) {
      __syncthreads();
      part[thread] =
          first + thread < rows ? similar[offset + first + thread] : MostSimilar{-1, -INFINITY};
      __syncthreads();
      for (int i = 0; i < merge_threads; ++i) {
        const bool before =
            part[i].cosine > own.cosine || (part[i].cosine == own.cosine && first + i < row);
        if (part[i].target >= 0 && before) ++rank;
      }
    }
  }
  if (thread >= tile.count) return;
  double weight = 0.0;
  if (own.target >= 0 && rank < most) {
    const float* lengths = norms.head(tile.head);
    weight = merge_weight(own.cosine, options.threshold, lengths[row],
                          lengths[kept.head(tile.head)[own.target]]);
  }
  weights[offset + row] = weight;
}

/// The part of an evicted row that kept rows [begin, end) receive, counted from the first one of
/// their block.
struct RowPart {
  double part;
  int begin;
  int end;
};

/// What a kept row of a block's tile receives when rows are merged into the most similar one.
struct SimilarParts {
  static constexpr bool mean = true;
  const MostSimilar* similar;  ///< [rows]
  const double* weights;       ///< [rows]
  std::int64_t first;          ///< kept row of the tile

  __device__ RowPart operator()(std::int64_t row) const {
    const std::int64_t target = similar[row].target - first;
    if (target < 0 || target >= merge_tile) return {0.0, 0, 0};
    return {weights[row], static_cast<int>(target), static_cast<int>(target) + 1};
  }
};

/// The same for the rows behind an evicted one.
struct FollowingParts {
  static constexpr bool mean = false;
  const std::int32_t* kept;
  std::int64_t kept_count;
  const double* shares;  ///< [rows]
  std::int64_t span;
  std::int64_t first;

  __device__ RowPart operator()(std::int64_t row) const {
    if (shares[row] == 0.0) return {0.0, 0, 0};
    const std::int64_t begin = place_among(kept, kept_count, row) - first;
    const std::int64_t end = begin > merge_tile - span ? merge_tile : begin + span;
    return {shares[row], static_cast<int>(begin < 0 ? 0 : begin), static_cast<int>(end)};
  }
};

/// One block for 16 kept rows of a head and 128 channels, a thread for each channel: looks through
/// the rows [first, end) of the head for those that it takes in, in order. Each thread asks for the
/// part of one row. Sums may be divided by 1 + the parts in them.
template <class T, class PartsOf>
__device__ void merge_tile_rows(const std::int32_t* kept, int count,
                                const HeadView<T, MemorySpace::device>& values, int channel,
                                std::int64_t first, std::int64_t end, const PartsOf& parts_of) {
  KVEVICT_SHARED(double, sums, [merge_tile * merge_threads]);
  KVEVICT_SHARED(double, part, [merge_threads]);
  KVEVICT_SHARED(int, begin_of, [merge_threads]);
  KVEVICT_SHARED(int, end_of, [merge_threads]);
  const int thread = static_cast<int>(threadIdx.x);
  double totals[merge_tile];
  KVEVICT_UNROLL
  for (int j = 0; j < merge_tile; ++j) {
    totals[j] = 0.0;
    sums[j * merge_threads + thread] = 0.0;
  }
  for (std::int64_t start = first; start < end; start += merge_threads) {
    RowPart own{0.0, 0, 0};
    if (start + thread < end) own = parts_of(start + thread);
    if (__syncthreads_or(own.part != 0.0 && own.begin < own.end ? 1 : 0) == 0) continue;
    part[thread] = own.part;
    begin_of[thread] = own.begin;
    end_of[thread] = own.end;
    __syncthreads();
    const int left = static_cast<int>(end - start < merge_threads ? end - start : merge_threads);
    for (int i = 0; i < left; ++i) {
      if (part[i] == 0.0 || begin_of[i] >= end_of[i]) continue;
      double value = 0.0;
      if (channel < values.dim) {
        value = static_cast<double>(static_cast<float>(values(start + i, channel)));
      }
      KVEVICT_UNROLL
      for (int j = 0; j < merge_tile; ++j) {
        if (j < begin_of[i] || j >= end_of[i]) continue;
        totals[j] += part[i];
        sums[j * merge_threads + thread] += part[i] * value;
      }
    }
  }
  if (channel >= values.dim) return;
  KVEVICT_UNROLL
  for (int j = 0; j < merge_tile; ++j) {
    if (j >= count || totals[j] == 0.0) continue;
    T& value = values(kept[j], channel);
    const double sum =
        sums[j * merge_threads + thread] + static_cast<double>(static_cast<float>(value));
    const double scale = PartsOf::mean ? 1.0 / (1.0 + totals[j]) : 1.0;
    value = saturated<T>(sum * scale);
  }
}

/// Which kept rows and channels a block of a launch over heads x tiles x slices merges into.
struct MergePlace {
  std::int64_t head;
  std::int64_t first;  ///< kept row
  int count;
  int channel;  ///< of this thread

  __device__ MergePlace(const SelectionView<MemorySpace::device>& kept, std::int64_t tiles,
                        int slices) {
    const std::int64_t block = blockIdx.x;
    head = block / (tiles * slices);
    first = block / slices % tiles * merge_tile;
    const std::int64_t left = kept.count(head) - first;
    count = static_cast<int>(left < 0 ? 0 : (left < merge_tile ? left : merge_tile));
    channel = static_cast<int>(block % slices) * merge_threads + static_cast<int>(threadIdx.x);
  }
};

template <class T>
__global__ void __launch_bounds__(merge_threads)
    merge_similar(SelectionView<MemorySpace::device> kept, const MostSimilar* similar,
                  const double* weights, RowsView<T, MemorySpace::device> values,
                  std::int64_t tiles, int slices) {
  const MergePlace place(kept, tiles, slices);
  if (place.count == 0) return;
  const std::int64_t offset = values.layout().offset(place.head);
  const auto head = values.head(place.head);
  merge_tile_rows(kept.head(place.head) + place.first, place.count, head, place.channel, 0,
                  head.rows, SimilarParts{similar + offset, weights + offset, place.first});
}

template <class T>
__global__ void __launch_bounds__(merge_threads)
    merge_following(SelectionView<MemorySpace::device> kept, const double* shares,
                    std::int64_t span, RowsView<T, MemorySpace::device> values, std::int64_t tiles,
                    int slices) {
  const MergePlace place(kept, tiles, slices);
  if (place.count == 0) return;
  const std::int32_t* indices = kept.head(place.head);
  // Evicted rows between the span-th kept row before the tile and its last row reach the tile.
  const std::int64_t first = place.first < span ? 0 : indices[place.first - span] + std::int64_t{1};
  merge_tile_rows(indices + place.first, place.count, values.head(place.head), place.channel, first,
                  indices[place.first + place.count - 1],
                  FollowingParts{indices, kept.count(place.head),
                                 shares + values.layout().offset(place.head), span, place.first});
}

/// Writes for every row the part of it that each of the kept rows behind it receives.
struct FollowingShares {
  SelectionView<MemorySpace::device> kept;
  Positions<MemorySpace::device> positions;
  ScoreView<MemorySpace::device> attention;
  FollowingMergeOptions options;
  double* shares;

  __device__ void operator()(const HeadTile& tile) const {
    const std::int32_t* indices = kept.head(tile.head);
    const std::int64_t kept_count = kept.count(tile.head);
    const float* received = attention.head(tile.head);
    const PositionRow<> row_positions = positions.row(tile.head, attention.layout);
    double* out = shares + attention.layout.offset(tile.head);
    for_rows_of(tile, [&](std::int64_t row) {
      const std::int64_t place = place_among(indices, kept_count, row);
      double share = 0.0;
      if (place == kept_count || indices[place] != row) {
        const std::int64_t left = kept_count - place;
        const std::int64_t count = left < options.span ? left : options.span;
        double behind = 0.0;
        for (std::int64_t n = 0; n < count; ++n) {
          behind += static_cast<double>(received[indices[place + n]]);
        }
        const auto position = static_cast<std::uint64_t>(std::int64_t{row_positions[row]});
        share = following_share(
            received[row], behind, count,
            random_uniform(options.seed, static_cast<std::uint64_t>(tile.head), position));
      }
      out[row] = share;
    });
  }
};

inline int merge_slices(std::int64_t dim) { return static_cast<int>(tiles_of(dim, merge_threads)); }

}  // namespace detail

/// Besides the products a read of keys and values for their lengths, and a read of the evicted
/// values. Workspace: 20 bytes for each row.
template <class T>
void merge_rows_impl(Resources& res, SelectionView<MemorySpace::device> kept,
                     const RowsView<const T, MemorySpace::device>& keys,
                     const RowsView<T, MemorySpace::device>& values, const MergeOptions& options) {
  const RowLayout<MemorySpace::device>& layout = keys.layout();
  WorkspaceScope scope(res.workspace());
  const ScoreView<MemorySpace::device> norms{scope.carve<float>("merge_rows.norms", layout.total()),
                                             layout};
  auto* similar = scope.carve<MostSimilar>("merge_rows.similar", layout.total());
  auto* weights = scope.carve<double>("merge_rows.weights", layout.total());
  if (res.workspace().counting() || kept.layout.total() == 0) return;
  row_norms_impl(res, keys, 1.0f, norms);
  const std::int64_t tiles = tiles_of(layout.longest(), 64);
  launch(res, "merge_rows.most_similar", detail::most_similar<T>, keys.heads() * tiles, 128, 0,
         kept, keys, tiles, norms, similar);
  row_norms_impl(res, values, 1.0f, norms);
  const std::int64_t weight_tiles = tiles_of(layout.longest(), detail::merge_threads);
  launch(res, "merge_rows.weights", detail::merge_weights, keys.heads() * weight_tiles,
         detail::merge_threads, 0, kept, static_cast<const MostSimilar*>(similar), weight_tiles,
         options, norms, weights);
  const std::int64_t kept_tiles = tiles_of(kept.layout.longest(), detail::merge_tile);
  const int slices = detail::merge_slices(values.dim());
  launch(res, "merge_rows", detail::merge_similar<T>, keys.heads() * kept_tiles * slices,
         detail::merge_threads, 0, kept, static_cast<const MostSimilar*>(similar),
         static_cast<const double*>(weights), values, kept_tiles, slices);
}

/// A read of the evicted values for each 16 kept rows that share them. Workspace: 8 bytes for each
/// row.
template <class T>
void merge_following_rows_impl(Resources& res, SelectionView<MemorySpace::device> kept,
                               const Positions<MemorySpace::device>& positions,
                               ScoreView<MemorySpace::device> attention,
                               const RowsView<T, MemorySpace::device>& values,
                               const FollowingMergeOptions& options) {
  WorkspaceScope scope(res.workspace());
  auto* shares = scope.carve<double>("merge_following_rows.shares", values.layout().total());
  if (res.workspace().counting() || kept.layout.total() == 0) return;
  for_each_score_tile(res, "merge_following_rows.shares", values.layout(),
                      detail::FollowingShares{kept, positions, attention, options, shares});
  const std::int64_t kept_tiles = tiles_of(kept.layout.longest(), detail::merge_tile);
  const int slices = detail::merge_slices(values.dim());
  launch(res, "merge_following_rows", detail::merge_following<T>,
         values.heads() * kept_tiles * slices, detail::merge_threads, 0, kept,
         static_cast<const double*>(shares), options.span, values, kept_tiles, slices);
}

}  // namespace kvevict::cuda
