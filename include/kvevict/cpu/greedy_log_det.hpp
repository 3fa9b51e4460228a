// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/greedy_log_det.hpp"

namespace kvevict::cpu {

/// A row that may be picked, and the most that it can gain.
struct GreedyCandidate {
  double bound;
  std::int32_t row;
  std::int32_t picks;  ///< made when the bound was the gain

  /// Of two in a heap, whether the other is nearer its top: larger bounds, then earlier rows.
  friend bool operator<(const GreedyCandidate& a, const GreedyCandidate& b) {
    return a.bound != b.bound ? a.bound < b.bound : a.row > b.row;
  }
};

/// The capacity matrix of the rows picked so far, as its inverse in double. Memory is the caller's:
/// `size` doubles, of which the first `channels`^2 are the inverse.
template <class T>
class GreedyHead {
 public:
  static std::int64_t size(std::int64_t dim, std::int64_t channels) {
    return channels * (channels + 2) + 2 * dim;
  }

  GreedyHead(const HeadView<T>& values, const float* roots, const MatrixMap<const float>& transform,
             float* row, double* memory)
      : values_(values),
        roots_(roots),
        transform_(transform),
        row_(row),
        channels_(transform.data() == nullptr ? values.dim : transform.rows()),
        inverse_(memory, channels_, channels_, Eigen::OuterStride<>(channels_)),
        product_(memory + channels_ * channels_, channels_),
        scaled_(memory + channels_ * (channels_ + 1), channels_) {}

  std::int64_t channels() const { return channels_; }

  /// Roots are multiplied by it.
  void set_scale(double scale) { scale_ = scale; }
  void start(double s2) { inverse_.setIdentity() /= s2; }

  /// w |u|^2 of a row; NaN where that is not finite.
  double squared_length(std::int64_t i) {
    load(i);
    return scaled_.squaredNorm();
  }
  /// w u^T A^-1 u
  double gain(std::int64_t i) {
    load(i);
    product_.noalias() = inverse_.template selfadjointView<Eigen::Lower>() * scaled_;
    return scaled_.dot(product_);
  }
  /// Adds a row to the matrix; returns its gain. (A + x x^T)^-1 = A^-1 - y y^T / (1 + x^T y), y =
  /// A^-1 x.
  double pick(std::int64_t i) {
    const double gained = gain(i);
    inverse_.template selfadjointView<Eigen::Lower>().rankUpdate(product_, -1.0 / (1.0 + gained));
    return gained;
  }

 private:
  /// scaled_ = sqrt(w) u
  void load(std::int64_t i) {
    load_row(values_, i, row_);
    const double root = scale_ * static_cast<double>(roots_[i]);
    const VectorMap<const float> value(row_, values_.dim);
    if (transform_.data() == nullptr) {
      scaled_ = value.template cast<double>() * root;
    } else {
      for (std::int64_t c = 0; c < channels_; ++c) {
        scaled_[c] = root * transform_.row(c).template cast<double>().dot(
                                value.template cast<double>().transpose());
      }
    }
  }

  HeadView<T> values_;
  const float* roots_;
  MatrixMap<const float> transform_;
  float* row_;
  std::int64_t channels_;
  double scale_ = 1.0;
  MatrixMap<double> inverse_;
  VectorMap<double> product_;
  VectorMap<double> scaled_;
};

/// What became of one head.
struct GreedyOutcome {
  std::int64_t nans = 0;
  bool zero = false;
};

/// Picks rows of one head into `out`, `count` of them. `heap` has a place for each row.
template <class T>
GreedyOutcome pick_rows(GreedyHead<T>& head, const float* roots, std::int64_t rows,
                        const Noise& noise, const Protect& protect, const PositionRow<>& positions,
                        std::int64_t count, GreedyCandidate* heap, std::int32_t* out,
                        double& log_det) {
  GreedyOutcome outcome;
  std::int32_t* const end = out + count;
  std::int32_t* at = out;
  // In units of the largest root the matrix stays within range however small the weights are.
  float largest = 0.0f;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (std::isfinite(roots[i])) largest = std::max(largest, std::abs(roots[i]));
  }
  const double scale = largest > 0.0f ? 1.0 / static_cast<double>(largest) : 0.0;
  head.set_scale(scale);
  double trace = 0.0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const double squares =
        std::isfinite(roots[i]) ? head.squared_length(i) : std::numeric_limits<double>::infinity();
    const bool finite = std::isfinite(squares);
    outcome.nans += finite ? 0 : 1;
    if (finite) trace += squares;
    heap[i] = {finite ? squares : -1.0, static_cast<std::int32_t>(i), 0};
  }
  const double s2 = noise.kind == Noise::Kind::absolute
                        ? noise.value * scale * scale
                        : noise.value * trace / static_cast<double>(head.channels());
  outcome.zero = !(trace > 0.0) || !(s2 > 0.0);
  if (!outcome.zero) head.start(s2);
  log_det = 0.0;
  // Rows that are not finite have a bound below 0, and no part in the matrix.
  const auto take = [&](const GreedyCandidate& candidate) {
    *at++ = candidate.row;
    if (!outcome.zero && candidate.bound >= 0.0) log_det += std::log1p(head.pick(candidate.row));
  };
  std::int64_t open = 0;
  std::int64_t seen = 0;
  for_each_protected_range(protect, positions, rows, [&](std::int64_t first, std::int64_t last) {
    for (; seen < first; ++seen) heap[open++] = heap[seen];
    for (; seen < last; ++seen) take(heap[seen]);
  });
  for (; seen < rows; ++seen) heap[open++] = heap[seen];
  for (std::int64_t i = 0; i < open; ++i) {
    // Of the matrix without a row: the first bound.
    if (heap[i].bound > 0.0) heap[i].bound = outcome.zero ? 0.0 : heap[i].bound / s2;
    heap[i].picks = -1;
  }
  std::make_heap(heap, heap + open);
  const std::int64_t held = at - out;
  while (at != end) {
    std::pop_heap(heap, heap + open);
    GreedyCandidate& best = heap[open - 1];
    const auto picks = static_cast<std::int32_t>(at - out - held);
    if (best.bound <= 0.0 || best.picks == picks) {
      take(best);
      --open;
    } else {
      best.bound = std::max(head.gain(best.row), 0.0);
      best.picks = picks;
      std::push_heap(heap, heap + open);
    }
  }
  std::sort(out, end);
  return outcome;
}

template <class T>
void greedy_log_det_impl(Resources& res, const RowsView<T>& values, ScoreView<> root_weights,
                         const MatrixBatchView<const float>& transforms, const Noise& noise,
                         const Positions<>& positions, const Protect& protect,
                         const RowLayout<>& kept, std::int32_t* indices, double* log_dets) {
  const std::int64_t heads = values.heads();
  const std::int64_t dim = values.dim();
  const bool projected = !transforms.empty();
  const std::int64_t channels = projected ? transforms.shape[1] : dim;
  const std::int64_t longest = values.layout().longest();
  const std::int64_t size = GreedyHead<T>::size(dim, channels);
  WorkspaceScope scope(res.workspace());
  auto* heaps = scope.carve<GreedyCandidate>("greedy_log_det.heap", res.threads() * longest);
  double* matrices = scope.carve<double>("greedy_log_det.matrix", res.threads() * size);
  float* rows = scope.carve<float>("greedy_log_det.row", res.threads() * dim);
  auto* outcomes = scope.carve<GreedyOutcome>("greedy_log_det.outcomes", heads);
  if (res.workspace().counting()) return;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t held =
        count_protected(protect, positions.row(h, values.layout()), values.rows(h));
    require_for_head(held <= kept.rows(h), "protected rows", h, held,
                     "at most the rows that it keeps,", kept.rows(h), ErrorKind::budget);
  }
  res.parallel_for(heads, [&](std::int64_t h, int worker) {
    const auto transform =
        projected ? map_matrix(&transforms(h, 0, 0), channels, dim, transforms.stride[1])
                  : map_matrix<const float>(nullptr, 0, 0);
    GreedyHead<T> head(values.head(h), root_weights.head(h), transform, rows + worker * dim,
                       matrices + worker * size);
    double log_det = 0.0;
    outcomes[h] = pick_rows(head, root_weights.head(h), values.rows(h), noise, protect,
                            positions.row(h, values.layout()), kept.rows(h),
                            heaps + worker * longest, indices + kept.offset(h), log_det);
    if (log_dets != nullptr) log_dets[h] = log_det;
  });
  for (std::int64_t h = 0; h < heads; ++h) {
    res.report().nan_scores += outcomes[h].nans;
    res.report().zero_capacity_heads += outcomes[h].zero ? 1 : 0;
  }
}

}  // namespace kvevict::cpu
