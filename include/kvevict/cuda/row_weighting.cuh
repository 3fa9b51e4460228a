// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kvevict/cuda/row_forms.cuh"
#include "kvevict/cuda/row_maximum.cuh"
#include "kvevict/cuda/row_norms.cuh"
#include "kvevict/cuda/search.cuh"
#include "kvevict/math/exponential.hpp"
#include "kvevict/ops/row_weighting.hpp"

namespace kvevict::cuda {

namespace detail {

/// log(exp(score) + epsilon) without leaving the range of floats.
__device__ inline float add_in_log_domain(float score, double epsilon) {
  if (epsilon <= 0.0) return score;
  const double a = static_cast<double>(score);
  const double b = log(epsilon);
  // A NaN score is the first operand of both, and stays.
  const double high = a < b ? b : a;
  const double low = b < a ? b : a;
  return static_cast<float>(high + log1p(exp(low - high)));
}

/// Weights the scores of `group` query heads by the norms of the rows of their head.
struct WeightByNorm {
  ScoreView<MemorySpace::device> scores;
  int group;
  Epsilon epsilon;
  ReductionDomain domain;

  /// Of a norm that `parts` lanes know: each weights its part of the group.
  __device__ void operator()(std::int64_t head, std::int64_t row, int part, int parts,
                             double norm) const {
    const std::int64_t rows = scores.layout.rows(head * group);
    float* of_group = scores.head(head * group) + row;  // the blocks of a group are adjacent
    for (int g = part; g < group; g += parts) weight(of_group[g * rows], epsilon.of(rows), norm);
  }
  /// Of a norm of one query head.
  __device__ void operator()(std::int64_t /*head*/, std::int64_t query_head, std::int64_t row,
                             double norm) const {
    weight(scores.head(query_head)[row], epsilon.of(scores.layout.rows(query_head)), norm);
  }

 private:
  __device__ void weight(float& score, double added, double norm) const {
    score = domain == ReductionDomain::logarithm
                ? add_in_log_domain(score, added) + static_cast<float>(log(norm))
                : static_cast<float>((static_cast<double>(score) + added) * norm);
  }
};

/// The rows of a head that are not raised.
struct OtherRows {
  Positions<MemorySpace::device> positions;
  RaisedRows<MemorySpace::device> raised;
  RowLayout<MemorySpace::device> layout;

  __device__ RowSpan operator()(std::int64_t head) const {
    const std::int64_t rows = layout.rows(head);
    const std::int64_t behind =
        count_below<score_threads>(positions.row(head, layout), raised.from.of(head), rows);
    const std::int64_t begin = raised.first < behind ? raised.first : behind;
    const std::int64_t end = behind < rows - raised.last ? behind : rows - raised.last;
    return {begin, begin < end ? end : begin};
  }
};

/// One block for each head: raised rows are few.
template <int Threads>
__global__ void __launch_bounds__(Threads)
    fill_raised_rows(ScoreView<MemorySpace::device> scores, OtherRows others,
                     SplitMaxima<MaximumNumber> maxima) {
  const std::int64_t head = blockIdx.x;
  const std::int64_t rows = scores.layout.rows(head);
  const RowSpan range = others(head);
  const float largest = maxima.of_head<Threads>(head, rows);
  const float value = range.begin == range.end ? 0.0f : largest;
  float* out = scores.head(head);
  for (std::int64_t i = threadIdx.x; i < range.begin; i += Threads) out[i] = value;
  for (std::int64_t i = range.end + threadIdx.x; i < rows; i += Threads) out[i] = value;
}

struct RowsAfter {
  std::int64_t skipped;
  RowLayout<MemorySpace::device> layout;

  __device__ RowSpan operator()(std::int64_t head) const {
    const std::int64_t rows = layout.rows(head);
    return {skipped < rows ? skipped : rows, rows};
  }
};

struct ExponentialRoots {
  ScoreView<MemorySpace::device> z;
  float scale;
  float offset;
  std::int64_t skip_first;
  SplitMaxima<Maximum> maxima;
  ScoreView<MemorySpace::device> out;

  __device__ void operator()(const HeadTile& tile) const {
    const float maximum = maxima.of_head<score_threads>(tile.head, z.layout.rows(tile.head));
    const float* in = z.head(tile.head);
    float* result = out.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) {
      result[i] = i < skip_first ? 0.0f : root(scale * (in[i] - maximum));
    });
  }

 private:
  /// Half the exponent gives the root without squaring away small weights; an offset needs the
  /// weight itself.
  __device__ float root(float exponent) const {
    return offset == 0.0f ? exp_nonpositive(0.5f * exponent)
                          : sqrtf(exp_nonpositive(exponent) + offset);
  }
};

struct MultiplyByRoot {
  ScoreView<MemorySpace::device> quadratic;
  ScoreView<MemorySpace::device> jacobian;

  __device__ void operator()(const HeadTile& tile) const {
    const float* kappa = quadratic.head(tile.head);
    float* out = jacobian.head(tile.head);
    for_rows_of(tile, [&](std::int64_t i) { out[i] *= sqrtf(kappa[i] < 0.0f ? 0.0f : kappa[i]); });
  }
};

}  // namespace detail

/// Without transforms one read of the rows, at the speed of memory; with them 2 dim^2 flops for
/// each row and query head, bound by fp32 arithmetic.
template <class T>
void weight_by_norm_impl(Resources& res, const RowsView<T, MemorySpace::device>& rows,
                         MatrixBatchView<const float, MemorySpace::device> transforms,
                         std::int64_t group, Epsilon epsilon, ReductionDomain domain,
                         ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  const RowsView<const std::remove_const_t<T>, MemorySpace::device> read = rows;
  const detail::WeightByNorm weight{scores, static_cast<int>(group), epsilon, domain};
  if (transforms.empty()) {
    detail::for_row_norms(res, "weight_by_norm", read, weight);
  } else {
    enqueue_row_forms<RowForm::norm>(res, "weight_by_norm.transforms", read, transforms, group,
                                     1.0f, weight);
  }
}

/// One read of the scores.
inline void raise_rows_impl(Resources& res, const Positions<MemorySpace::device>& positions,
                            const RaisedRows<MemorySpace::device>& raised,
                            ScoreView<MemorySpace::device> scores) {
  WorkspaceScope scope(res.workspace());
  const auto maxima = carve_split_maxima<MaximumNumber>(scope, "raise_rows.maxima", scores.layout);
  if (res.workspace().counting()) return;
  const detail::OtherRows others{positions, raised, scores.layout};
  enqueue_split_maxima(res, "raise_rows.maxima", scores, others, maxima);
  launch(res, "raise_rows", detail::fill_raised_rows<score_threads>, scores.layout.heads(),
         score_threads, 0, scores, others, maxima);
}

/// Two reads of the scores, the second from the caches when they fit there, and one write.
inline void exponential_root_weights_impl(Resources& res, ScoreView<MemorySpace::device> z,
                                          float scale, float offset, std::int64_t skip_first,
                                          ScoreView<MemorySpace::device> out) {
  WorkspaceScope scope(res.workspace());
  const auto maxima =
      carve_split_maxima<Maximum>(scope, "exponential_root_weights.maxima", z.layout);
  if (res.workspace().counting()) return;
  enqueue_split_maxima(res, "exponential_root_weights.maxima", z,
                       detail::RowsAfter{skip_first, z.layout}, maxima);
  for_each_score_tile(res, "exponential_root_weights", z.layout,
                      detail::ExponentialRoots{z, scale, offset, skip_first, maxima, out});
}

/// 12 bytes for each score.
inline void multiply_by_root_impl(Resources& res, ScoreView<MemorySpace::device> quadratic,
                                  ScoreView<MemorySpace::device> jacobian) {
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "multiply_by_root", jacobian.layout,
                      detail::MultiplyByRoot{quadratic, jacobian});
}

}  // namespace kvevict::cuda
