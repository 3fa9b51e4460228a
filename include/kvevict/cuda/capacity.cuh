// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/inverse_factor.cuh"
#include "kvevict/cuda/reduce.cuh"
#include "kvevict/cuda/weighted_gram.cuh"
#include "kvevict/ops/capacity.hpp"

namespace kvevict::cuda {

namespace detail {

/// Roots of a head that a block looks through.
inline constexpr int roots_tile = 4096;

/// largest[m] becomes the bits of the largest |root| of block m, which order as the numbers do, NaN
/// above infinity. It must be zero before; the maximum of integers does not depend on the order.
static __global__ void __launch_bounds__(128)
    find_largest_roots(ScoreView<MemorySpace::device> roots, std::int64_t tiles,
                       std::uint32_t* largest) {
  const HeadTile tile = head_tile(blockIdx.x, tiles, roots_tile, roots.layout);
  const float* head = roots.head(tile.head) + tile.first;
  std::uint32_t found = 0;
  for (std::int64_t i = threadIdx.x; i < tile.count; i += 128) {
    const std::uint32_t bits = kvevict::detail::bit_cast<std::uint32_t>(head[i]) & 0x7fffffffu;
    found = found < bits ? bits : found;
  }
  found = reduce_lanes(found, Maximum{});
  if (threadIdx.x % warp_size == 0 && found > 0) atomicMax(largest + tile.head, found);
}

/// Matrices [first, first + count) of a batch.
template <class T>
MatrixBatchView<T, MemorySpace::device> matrices_from(
    const MatrixBatchView<T, MemorySpace::device>& batch, std::int64_t first, std::int64_t count) {
  MatrixBatchView<T, MemorySpace::device> part = batch;
  if (batch.empty()) return part;
  part.data += first * batch.stride[0];
  part.shape[0] = count;
  return part;
}

/// Matrices whose factors are held at once by `capacity_scores`: enough to fill any device.
inline constexpr std::int64_t capacity_batch = 512;

/// The largest condition number, dim / noise, for which fp32 products hold the promised 1e-4; see
/// GramTile. Noise that is absolute or that a transform stands before may be anything against the
/// Gram matrix.
inline constexpr double largest_condition_of_fast_grams = 1e-4 * 0x1p24;

inline bool fast_grams_hold(const MatrixBatchView<const float, MemorySpace::device>& transforms,
                            const Noise& noise, std::int64_t dim) {
  return transforms.empty() && noise.kind == Noise::Kind::relative &&
         static_cast<double>(dim) <= noise.value * largest_condition_of_fast_grams;
}

/// Scratch memory of the steps behind a Gram matrix.
struct FactorScratch {
  double* lower = nullptr;     ///< [matrix][dim][dim]
  double* solution = nullptr;  ///< [matrix][dim][dim]
  CapacityOutcome* outcomes = nullptr;
  int* overflows = nullptr;
};

/// The matrices of a capacity that are worked on at once, and their memory: 20 dim^2 bytes for each
/// and the partial sums of GramPlan.
struct CapacityBatch {
  std::int64_t size;  ///< matrices at once
  double* gram;
  float* factors;
  double* partials;
  FactorScratch scratch;  ///< `lower` is `gram`

  CapacityBatch(Resources& res, WorkspaceScope& scope, std::int64_t heads, std::int64_t dim,
                std::int64_t longest)
      : size(std::min(heads, capacity_batch)), limits_(res.limits()), dim_(dim), longest_(longest) {
    const std::int64_t last = size == 0 ? 0 : heads - (heads - 1) / size * size;
    const std::int64_t numbers = size * dim * dim;
    gram = scope.carve<double>("capacity.gram", numbers);
    scratch.solution = scope.carve<double>("capacity.solution", numbers);
    factors = scope.carve<float>("capacity.factors", numbers);
    partials = scope.carve<double>("capacity.partials",
                                   std::max(plan(size).partial_size(), plan(last).partial_size()));
    scratch.outcomes = scope.carve<CapacityOutcome>("capacity.outcomes", size);
    scratch.overflows = scope.carve<int>("capacity.overflows", size);
    scratch.lower = gram;
  }

  GramPlan plan(std::int64_t count) const { return GramPlan(limits_, count, dim_, longest_); }

  /// The first `count` matrices of `gram` or `factors`.
  template <class Number>
  MatrixBatchView<Number, MemorySpace::device> first(Number* memory, std::int64_t count) const {
    return MatrixBatchView<Number, MemorySpace::device>::packed(memory, count, dim_, dim_);
  }

 private:
  const DeviceLimits& limits_;
  std::int64_t dim_;
  std::int64_t longest_;
};

/// The steps of inverse_factor. `largest` may be null.
inline void enqueue_inverse_factors(
    Resources& res, const MatrixBatchView<const double, MemorySpace::device>& gram,
    const MatrixBatchView<const float, MemorySpace::device>& transforms, const Noise& noise,
    const std::uint32_t* largest, const FactorScratch& scratch,
    const MatrixBatchView<float, MemorySpace::device>& factors) {
  Factorizations task;
  task.matrices = gram;
  if (!transforms.empty()) {
    enqueue_transforms(res, gram, transforms, scratch.solution, scratch.lower);
    task.matrices = MatrixBatchView<const double, MemorySpace::device>::packed(
        scratch.lower, gram.shape[0], gram.shape[1], gram.shape[1]);
  }
  task.lower = scratch.lower;
  task.noise = noise;
  task.largest = largest;
  task.outcomes = scratch.outcomes;
  task.overflows = scratch.overflows;
  enqueue_factorizations(res, task);
  enqueue_solves(res, {scratch.lower, transforms, scratch.solution, factors, scratch.outcomes,
                       scratch.overflows});
}

}  // namespace detail

/// Own kernels, in double; no workspace beyond the partial sums of GramPlan, at most 1 MiB for each
/// multiprocessor.
template <class T>
void weighted_gram_impl(Resources& res, const RowsView<T, MemorySpace::device>& values,
                        ScoreView<MemorySpace::device> root_weights, std::int64_t group,
                        MatrixBatchView<double, MemorySpace::device> gram) {
  const GramPlan plan(res.limits(), gram.shape[0], values.dim(), values.layout().longest());
  WorkspaceScope scope(res.workspace());
  double* partials = scope.carve<double>("weighted_gram.partials", plan.partial_size());
  if (res.workspace().counting()) return;
  Grams task;
  task.gram = gram;
  task.roots = root_weights;
  task.group = group;
  enqueue_grams<double, std::remove_const_t<T>>(res, values, task, plan, partials);
}

/// Workspace: 16 dim^2 bytes for each matrix.
inline void inverse_factor_impl(Resources& res,
                                MatrixBatchView<const double, MemorySpace::device> gram,
                                MatrixBatchView<const float, MemorySpace::device> transforms,
                                Noise noise, MatrixBatchView<float, MemorySpace::device> factors) {
  const std::int64_t heads = gram.shape[0];
  const std::int64_t size = heads * gram.shape[1] * gram.shape[1];
  WorkspaceScope scope(res.workspace());
  detail::FactorScratch scratch;
  scratch.lower = scope.carve<double>("inverse_factor.lower", size);
  scratch.solution = scope.carve<double>("inverse_factor.solution", size);
  scratch.outcomes = scope.carve<CapacityOutcome>("inverse_factor.outcomes", heads);
  scratch.overflows = scope.carve<int>("inverse_factor.overflows", heads);
  if (res.workspace().counting()) return;
  detail::enqueue_inverse_factors(res, gram, transforms, noise, nullptr, scratch, factors);
}

template <class T>
void leverage_scores_impl(Resources& res, const RowsView<T, MemorySpace::device>& values,
                          MatrixBatchView<const float, MemorySpace::device> factors,
                          std::int64_t group, ScoreView<MemorySpace::device> root_weights,
                          ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  Leverages task;
  task.factors = factors;
  task.roots = root_weights;
  task.scores = scores;
  task.group = group;
  enqueue_leverages<std::remove_const_t<T>>(res, values, task, factors.shape[0]);
}

/// All heads in one launch a step, up to 512 matrices at a time; V is read twice. Workspace:
/// that of CapacityBatch.
template <class T>
void capacity_scores_impl(Resources& res, const RowsView<T, MemorySpace::device>& values,
                          ScoreView<MemorySpace::device> gram_roots,
                          MatrixBatchView<const float, MemorySpace::device> transforms, Noise noise,
                          std::int64_t group, ScoreView<MemorySpace::device> leverage_roots,
                          ScoreView<MemorySpace::device> scores) {
  using Element = std::remove_const_t<T>;
  const std::int64_t heads = scores.layout.heads();
  const std::int64_t dim = values.dim();
  WorkspaceScope scope(res.workspace());
  const detail::CapacityBatch batch(res, scope, heads, dim, values.layout().longest());
  auto* largest = scope.carve<std::uint32_t>("capacity_scores.largest", heads);
  auto* marks = scope.carve<std::uint8_t>("capacity_scores.marks", batch.size);
  if (res.workspace().counting() || heads == 0) return;

  // In units of the largest root the matrix and its factor stay within range however small the
  // weights are.
  require_success(
      cudaMemsetAsync(largest, 0, static_cast<std::size_t>(heads) * sizeof *largest, res.stream()),
      "cudaMemsetAsync");
  const std::int64_t tiles = tiles_of(gram_roots.layout.longest(), detail::roots_tile);
  launch(res, "find_largest_roots", detail::find_largest_roots, heads * tiles, 128, 0, gram_roots,
         tiles, largest);
  for (std::int64_t first = 0; first < heads; first += batch.size) {
    const std::int64_t count = std::min(batch.size, heads - first);
    Grams grams;
    grams.gram = batch.first(batch.gram, count);
    grams.roots = gram_roots;
    grams.group = group;
    grams.first = first;
    grams.largest = largest + first;
    if (detail::fast_grams_hold(transforms, noise, dim)) {
      enqueue_fast_grams<Element>(res, values, grams, batch.plan(count), batch.partials, marks);
    } else {
      enqueue_grams<double, Element>(res, values, grams, batch.plan(count), batch.partials);
    }
    detail::enqueue_inverse_factors(
        res, grams.gram, detail::matrices_from(transforms, first, count), noise, largest + first,
        batch.scratch, batch.first(batch.factors, count));
    Leverages leverages;
    leverages.factors = batch.first(batch.factors, count);
    leverages.roots = leverage_roots;
    leverages.scores = scores;
    leverages.group = group;
    leverages.first = first;
    leverages.lower_triangular = transforms.empty();
    leverages.outcomes = batch.scratch.outcomes;
    leverages.largest = largest + first;
    enqueue_leverages<Element>(res, values, leverages, count);
  }
}

}  // namespace kvevict::cuda
