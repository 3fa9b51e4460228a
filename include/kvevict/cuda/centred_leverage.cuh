// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/capacity.cuh"
#include "kvevict/cuda/row_splits.cuh"
#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/math/random.hpp"
#include "kvevict/ops/centred_leverage.hpp"

namespace kvevict::cuda {

namespace detail {

/// A head's rows are summed in splits of 256 rows, or of so many times 256 as make at most 64.
using MeanSplits = RowSplits<256, 64>;

/// sums[head][split][dim] over the rows of the range: one block for each split, a warp for each of
/// its rows and a lane for each channel.
template <class T>
__global__ void __launch_bounds__(128, resident_blocks<T>(8))
    sum_rows(RowsView<const T, MemorySpace::device> rows, RowRange range, std::int64_t max_splits,
             double* sums) {
  constexpr int warps = 4;
  const std::int64_t h = blockIdx.x / max_splits;
  const std::int64_t split = blockIdx.x % max_splits;
  const auto head = rows.head(h);
  const std::int64_t last = range.end(head.rows);
  const std::int64_t length = MeanSplits::length(range.count(head.rows));
  const std::int64_t begin = range.begin(head.rows) + split * length;
  if (begin >= last) return;
  const std::int64_t end = begin + length < last ? begin + length : last;
  KVEVICT_SHARED(double, of_warp, [warps][warp_size]);
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const std::int64_t dim = head.dim;
  for (std::int64_t first = 0; first < dim; first += warp_size) {
    const std::int64_t c = first + lane;
    double sum = 0.0;
    for (std::int64_t i = begin + warp; c < dim && i < end; i += warps) {
      sum += static_cast<double>(head.value(i, c));
    }
    of_warp[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && c < dim) {
      for (int w = 1; w < warps; ++w) sum += of_warp[w][lane];
      sums[(h * max_splits + split) * dim + c] = sum;
    }
    __syncthreads();
  }
}

/// Adds the splits of each head up: one block for each head.
static __global__ void __launch_bounds__(128)
    finish_means(RowLayout<MemorySpace::device> layout, RowRange range, std::int64_t max_splits,
                 std::int64_t dim, const double* sums, float* means) {
  const std::int64_t h = blockIdx.x;
  const std::int64_t rows = range.count(layout.rows(h));
  const std::int64_t splits = MeanSplits::count(rows);
  for (std::int64_t c = threadIdx.x; c < dim; c += 128) {
    double sum = 0.0;
    for (std::int64_t s = 0; s < splits; ++s) sum += sums[(h * max_splits + s) * dim + c];
    means[h * dim + c] = rows > 0 ? static_cast<float>(sum / static_cast<double>(rows)) : 0.0f;
  }
}

/// Weights of the rows: 1 within the range, 0 outside, where they stay as scores.
struct FillRange {
  RowRange range;
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    const std::int64_t rows = scores.layout.rows(tile.head);
    const std::int64_t begin = range.begin(rows);
    const std::int64_t end = range.end(rows);
    float* out = scores.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) { out[i] = i >= begin && i < end ? 1.0f : 0.0f; });
  }
};

/// A thread for each number of the sketch.
static __global__ void __launch_bounds__(128)
    draw_sketch(std::uint64_t seed, std::int64_t width, double scale,
                MatrixView<float, MemorySpace::device> sketch) {
  const std::int64_t i = blockIdx.x * std::int64_t{128} + threadIdx.x;
  const std::int64_t r = i / sketch.shape[1];
  const std::int64_t c = i % sketch.shape[1];
  if (r >= sketch.shape[0]) return;
  sketch(r, c) = r < width
                     ? static_cast<float>(scale * random_normal(seed, static_cast<std::uint64_t>(r),
                                                                static_cast<std::uint64_t>(c)))
                     : 0.0f;
}

}  // namespace detail

/// As capacity_scores, with double products throughout: what is centred may be small against the
/// rows. Up to 512 heads at a time. Workspace: that of CapacityBatch, and 12 dim bytes for each
/// head and 256 rows (at most 64 times).
template <class T>
void centred_leverage_impl(Resources& res, const RowsView<T, MemorySpace::device>& rows,
                           MatrixBatchView<const float, MemorySpace::device> transforms,
                           const RowRange& range, Noise noise,
                           ScoreView<MemorySpace::device> scores) {
  using Element = std::remove_const_t<T>;
  const std::int64_t heads = rows.heads();
  const std::int64_t dim = rows.dim();
  const std::int64_t longest = rows.layout().longest();
  const std::int64_t splits = std::max<std::int64_t>(1, detail::MeanSplits::most(longest));
  WorkspaceScope scope(res.workspace());
  double* sums = scope.carve<double>("centred_leverage.sums", heads * splits * dim);
  float* means = scope.carve<float>("centred_leverage.means", heads * dim);
  const detail::CapacityBatch batch(res, scope, heads, dim, longest);
  if (res.workspace().counting() || heads == 0) return;

  const RowsView<const Element, MemorySpace::device> read = rows;
  const CentredRows centred{means, range};
  launch(res, "sum_rows", detail::sum_rows<Element>, heads * splits, 128, 0, read, range, splits,
         sums);
  launch(res, "finish_means", detail::finish_means, heads, 128, 0, rows.layout(), range, splits,
         dim, static_cast<const double*>(sums), means);
  for_each_score_tile(res, "fill_range", scores.layout, detail::FillRange{range, scores});
  for (std::int64_t first = 0; first < heads; first += batch.size) {
    const std::int64_t count = std::min(batch.size, heads - first);
    Grams grams;
    grams.gram = batch.first(batch.gram, count);
    grams.roots = scores;
    grams.first = first;
    grams.centred = centred;
    enqueue_grams<double, Element, true>(res, read, grams, batch.plan(count), batch.partials);
    detail::enqueue_inverse_factors(res, grams.gram,
                                    detail::matrices_from(transforms, first, count), noise, nullptr,
                                    batch.scratch, batch.first(batch.factors, count));
    Leverages leverages;
    leverages.factors = batch.first(batch.factors, count);
    leverages.roots = scores;
    leverages.scores = scores;
    leverages.first = first;
    leverages.lower_triangular = transforms.empty();
    leverages.outcomes = batch.scratch.outcomes;
    leverages.centred = centred;
    enqueue_leverages<Element, true>(res, read, leverages, count);
  }
}

inline void gaussian_sketch_impl(Resources& res, std::uint64_t seed, std::int64_t width,
                                 MatrixView<float, MemorySpace::device> sketch) {
  if (res.workspace().counting()) return;
  launch(res, "gaussian_sketch", detail::draw_sketch, tiles_of(sketch.size(), 128), 128, 0, seed,
         width, 1.0 / std::sqrt(static_cast<double>(width)), sketch);
}

}  // namespace kvevict::cuda
