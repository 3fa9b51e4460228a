// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/query_products.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/capacity.hpp"

namespace kvevict::cpu {

/// What became of one capacity matrix.
enum class CapacityOutcome : std::uint8_t { usable, zero, failed };

inline void count_outcomes(const CapacityOutcome* outcomes, std::int64_t count, Report& report) {
  for (std::int64_t m = 0; m < count; ++m) {
    report.zero_capacity_heads += outcomes[m] == CapacityOutcome::zero ? 1 : 0;
    report.failed_factorizations += outcomes[m] == CapacityOutcome::failed ? 1 : 0;
  }
}

/// gram = sum_i (scale roots[i])^2 v_i v_i^T of one head. `scaled` holds a tile of doubles.
template <class T>
void gram_of_head(const HeadView<T>& values, const float* roots, double scale, float* tile,
                  double* scaled, MatrixMap<double> gram) {
  const std::int64_t dim = values.dim;
  gram.setZero();
  for_each_tile(values, tile, [&](std::int64_t first, const auto& block) {
    auto rows = map_matrix(scaled, block.rows(), dim);
    for (Eigen::Index i = 0; i < block.rows(); ++i) {
      rows.row(i) =
          block.row(i).template cast<double>() * (scale * static_cast<double>(roots[first + i]));
    }
    gram.selfadjointView<Eigen::Lower>().rankUpdate(rows.transpose());
  });
  gram.triangularView<Eigen::StrictlyUpper>() = gram.transpose();
}

/// factor = L^-1 R with s2 I + R gram R^T = L L^T, R = `transform` or the identity when it has no
/// data. `scratch` holds three d x d matrices.
inline CapacityOutcome factor_of_gram(const MatrixMap<const double>& gram,
                                      const MatrixMap<const float>& transform, Noise noise,
                                      double* scratch, MatrixMap<float> factor) {
  const std::int64_t dim = gram.rows();
  auto capacity = map_matrix(scratch, dim, dim);
  auto inverse = map_matrix(scratch + dim * dim, dim, dim);
  auto left = map_matrix(scratch + 2 * dim * dim, dim, dim);
  factor.setZero();
  if (transform.data() != nullptr) {
    left = transform.cast<double>();
    inverse.noalias() = left * gram;
    capacity.noalias() = inverse * left.transpose();
    inverse = left;
  } else {
    capacity = gram;
    inverse.setIdentity();
  }
  const double trace = capacity.trace();
  if (!std::isfinite(trace)) return CapacityOutcome::failed;
  const double s2 = noise.kind == Noise::Kind::absolute
                        ? noise.value
                        : noise.value * trace / static_cast<double>(dim);
  if (!(trace > 0.0) || !(s2 > 0.0)) return CapacityOutcome::zero;
  capacity.diagonal().array() += s2;
  // The matrix is symmetric, so its row-major storage reads as column-major; factorised in place.
  using InPlace = Eigen::Ref<Eigen::MatrixXd, 0, Eigen::OuterStride<>>;
  InPlace column_major(Eigen::Map<Eigen::MatrixXd>(capacity.data(), dim, dim));
  const Eigen::LLT<InPlace> cholesky(column_major);
  if (cholesky.info() != Eigen::Success) return CapacityOutcome::failed;
  cholesky.matrixL().solveInPlace(inverse);
  if (!inverse.allFinite()) return CapacityOutcome::failed;
  factor = inverse.cast<float>();
  if (factor.allFinite()) return CapacityOutcome::usable;
  factor.setZero();
  return CapacityOutcome::failed;
}

/// Floats of the scratch memory of `leverage_of_head`: a factor and the products of a tile.
inline std::int64_t leverage_scratch_size(std::int64_t dim) {
  return (dim + tile_rows) * padded_queries(dim);
}

/// factor^T [dim][padded_queries(dim)], and whether it is a triangle, as a factor without a
/// transform is.
inline PackedShape pack_factor(const MatrixMap<const float>& factor, float* packed) {
  const std::int64_t dim = factor.cols();
  const std::int64_t padded = padded_queries(dim);
  std::fill_n(packed, dim * padded, 0.0f);
  bool triangular = true;
  for (std::int64_t r = 0; r < dim; ++r) {
    for (std::int64_t c = 0; c < dim; ++c) {
      packed[c * padded + r] = factor(r, c);
      triangular = triangular && (c <= r || factor(r, c) == 0.0f);
    }
  }
  return triangular ? PackedShape::upper : PackedShape::full;
}

/// scores[i] = |factor (scale roots[i] v_i)|^2 of one head.
template <class T>
void leverage_of_head(const HeadView<T>& values, const MatrixMap<const float>& factor,
                      const float* roots, double scale, float* tile, float* scratch,
                      float* scores) {
  const std::int64_t dim = values.dim;
  const std::int64_t padded = padded_queries(dim);
  float* products = scratch + dim * padded;
  const PackedShape shape = pack_factor(factor, scratch);
  for_each_tile(values, tile, [&](std::int64_t first, const MatrixMap<const float>& block) {
    multiply_packed(block, scratch, padded, shape, products);
    const auto product = map_matrix<const float>(products, block.rows(), dim, padded);
    for (Eigen::Index i = 0; i < block.rows(); ++i) {
      const double length =
          wide_norm(product.row(i)) * scale * static_cast<double>(roots[first + i]);
      scores[first + i] = static_cast<float>(length * length);
    }
  });
}

template <class T>
void weighted_gram_impl(Resources& res, const RowsView<T>& values, ScoreView<> root_weights,
                        std::int64_t group, MatrixBatchView<double> gram) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = values.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("weighted_gram.tiles", res.threads() * tile);
  double* scaled = scope.carve<double>("weighted_gram.scaled", res.threads() * tile);
  if (res.workspace().counting()) return;
  res.parallel_for(gram.shape[0], [&](std::int64_t m, int worker) {
    gram_of_head(values.head(m / group), root_weights.head(m), 1.0, tiles + worker * tile,
                 scaled + worker * tile, map_matrix(&gram(m, 0, 0), dim, dim, gram.stride[1]));
  });
}

inline MatrixMap<const float> matrix_or_none(MatrixBatchView<const float> matrices, std::int64_t m,
                                             std::int64_t dim) {
  return matrices.empty() ? map_matrix<const float>(nullptr, 0, 0)
                          : map_matrix(&matrices(m, 0, 0), dim, dim, matrices.stride[1]);
}

inline void inverse_factor_impl(Resources& res, MatrixBatchView<const double> gram,
                                MatrixBatchView<const float> transforms, Noise noise,
                                MatrixBatchView<float> factors) {
  const std::int64_t heads = gram.shape[0];
  const std::int64_t dim = gram.shape[1];
  const std::int64_t matrices = 3 * dim * dim;
  WorkspaceScope scope(res.workspace());
  double* scratch = scope.carve<double>("inverse_factor.scratch", res.threads() * matrices);
  auto* outcomes = scope.carve<CapacityOutcome>("inverse_factor.outcomes", heads);
  if (res.workspace().counting()) return;
  res.parallel_for(heads, [&](std::int64_t m, int worker) {
    outcomes[m] =
        factor_of_gram(map_matrix(&gram(m, 0, 0), dim, dim, gram.stride[1]),
                       matrix_or_none(transforms, m, dim), noise, scratch + worker * matrices,
                       map_matrix(&factors(m, 0, 0), dim, dim, factors.stride[1]));
  });
  count_outcomes(outcomes, heads, res.report());
}

template <class T>
void leverage_scores_impl(Resources& res, const RowsView<T>& values,
                          MatrixBatchView<const float> factors, std::int64_t group,
                          ScoreView<> root_weights, ScoreView<> scores) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = values.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("leverage_scores.tiles", res.threads() * tile);
  const std::int64_t scratch_size = leverage_scratch_size(dim);
  float* scratch = scope.carve<float>("leverage_scores.scratch", res.threads() * scratch_size);
  if (res.workspace().counting()) return;
  res.parallel_for(factors.shape[0], [&](std::int64_t m, int worker) {
    leverage_of_head(values.head(m / group),
                     map_matrix(&factors(m, 0, 0), dim, dim, factors.stride[1]),
                     root_weights.head(m), 1.0, tiles + worker * tile,
                     scratch + worker * scratch_size, scores.head(m));
  });
}

/// 1 / the largest of a head's roots; 0 when there is none above zero, NaN when one is NaN.
inline double inverse_of_largest(const float* roots, std::int64_t rows) {
  float largest = 0.0f;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (!(std::abs(roots[i]) <= largest)) largest = std::abs(roots[i]);
    if (std::isnan(largest)) return std::numeric_limits<double>::quiet_NaN();
  }
  return largest > 0.0f ? 1.0 / static_cast<double>(largest) : 0.0;
}

/// Head after head: only one gram matrix and one factor for each thread, however many heads there
/// are, and the second pass over a head's values finds them in the cache.
template <class T>
void capacity_scores_impl(Resources& res, const RowsView<T>& values, ScoreView<> gram_roots,
                          MatrixBatchView<const float> transforms, Noise noise, std::int64_t group,
                          ScoreView<> leverage_roots, ScoreView<> scores) {
  const std::int64_t heads = scores.layout.heads();
  const std::int64_t dim = values.dim();
  const std::int64_t tile = tile_size(dim);
  const std::int64_t matrix = dim * dim;
  WorkspaceScope scope(res.workspace());
  float* tiles = scope.carve<float>("capacity_scores.tiles", res.threads() * tile);
  const std::int64_t scratch_size = leverage_scratch_size(dim);
  float* scratch = scope.carve<float>("capacity_scores.scratch", res.threads() * scratch_size);
  float* factors = scope.carve<float>("capacity_scores.factors", res.threads() * matrix);
  double* scaled = scope.carve<double>("capacity_scores.scaled", res.threads() * tile);
  double* doubles = scope.carve<double>("capacity_scores.matrices", res.threads() * 4 * matrix);
  auto* outcomes = scope.carve<CapacityOutcome>("capacity_scores.outcomes", heads);
  if (res.workspace().counting()) return;
  res.parallel_for(heads, [&](std::int64_t m, int worker) {
    const auto head = values.head(m / group);
    double* gram = doubles + worker * 4 * matrix;
    float* factor = factors + worker * matrix;
    float* head_tile = tiles + worker * tile;
    // In units of the largest root the matrix and its factor stay within range however small the
    // weights are, and scale |F v| root is at most about 1.
    const double scale = inverse_of_largest(gram_roots.head(m), head.rows);
    Noise scaled_noise = noise;
    if (noise.kind == Noise::Kind::absolute) scaled_noise.value *= scale * scale;
    gram_of_head(head, gram_roots.head(m), scale, head_tile, scaled + worker * tile,
                 map_matrix(gram, dim, dim));
    outcomes[m] =
        factor_of_gram(map_matrix<const double>(gram, dim, dim), matrix_or_none(transforms, m, dim),
                       scaled_noise, gram + matrix, map_matrix(factor, dim, dim));
    leverage_of_head(head, map_matrix<const float>(factor, dim, dim), leverage_roots.head(m), scale,
                     head_tile, scratch + worker * scratch_size, scores.head(m));
    if (outcomes[m] != CapacityOutcome::usable) {
      std::fill_n(scores.head(m), head.rows, 0.0f);
    }
  });
  count_outcomes(outcomes, heads, res.report());
}

}  // namespace kvevict::cpu
