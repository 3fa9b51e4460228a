// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/capacity.hpp"

namespace kvevict::cpu {

template <class T>
void weighted_gram_impl(Resources& res, const RowsView<T>& values, ScoreView<> root_weights,
                        std::int64_t group, MatrixBatchView<double> gram) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = values.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("weighted_gram.tiles", res.threads() * tile);
  double* scaled = scope.carve<double>("weighted_gram.scaled", res.threads() * tile);
  if (res.workspace().counting()) return;
  res.parallel_for(values.heads(), [&](std::int64_t h, int worker) {
    for (std::int64_t m = h * group; m < (h + 1) * group; ++m) {
      auto result = map_matrix(&gram(m, 0, 0), dim, dim, gram.stride[1]);
      result.setZero();
      const float* roots = root_weights.head(m);
      for_each_tile(
          values.head(h), tiles + worker * tile, [&](std::int64_t first, const auto& block) {
            auto rows = map_matrix(scaled + worker * tile, block.rows(), dim);
            for (Eigen::Index i = 0; i < block.rows(); ++i) {
              rows.row(i) =
                  block.row(i).template cast<double>() * static_cast<double>(roots[first + i]);
            }
            result.template selfadjointView<Eigen::Lower>().rankUpdate(rows.transpose());
          });
      result.template triangularView<Eigen::StrictlyUpper>() = result.transpose();
    }
  });
}

inline void inverse_factor_impl(Resources& res, MatrixBatchView<const double> gram,
                                MatrixBatchView<const float> transforms, Noise noise,
                                MatrixBatchView<float> factors) {
  const std::int64_t heads = gram.shape[0];
  const std::int64_t dim = gram.shape[1];
  const std::int64_t matrix = dim * dim;
  enum class Outcome : std::uint8_t { usable, zero, failed };
  WorkspaceScope scope(res.workspace());
  double* capacities = scope.carve<double>("inverse_factor.capacity", res.threads() * matrix);
  double* inverses = scope.carve<double>("inverse_factor.inverse", res.threads() * matrix);
  double* products = scope.carve<double>("inverse_factor.transform", res.threads() * matrix);
  Outcome* outcomes = scope.carve<Outcome>("inverse_factor.outcome", heads);
  if (res.workspace().counting()) return;
  res.parallel_for(heads, [&](std::int64_t m, int worker) {
    auto capacity = map_matrix(capacities + worker * matrix, dim, dim);
    auto inverse = map_matrix(inverses + worker * matrix, dim, dim);
    auto transform = map_matrix(products + worker * matrix, dim, dim);
    const auto source = map_matrix(&gram(m, 0, 0), dim, dim, gram.stride[1]);
    auto factor = map_matrix(&factors(m, 0, 0), dim, dim, factors.stride[1]);
    const bool transformed = !transforms.empty();
    if (transformed) {
      transform =
          map_matrix(&transforms(m, 0, 0), dim, dim, transforms.stride[1]).template cast<double>();
      inverse.noalias() = transform * source;
      capacity.noalias() = inverse * transform.transpose();
    } else {
      capacity = source;
    }
    const double trace = capacity.trace();
    factor.setZero();
    outcomes[m] = Outcome::failed;
    if (!std::isfinite(trace)) return;
    const double s2 = noise.kind == Noise::Kind::absolute
                          ? noise.value
                          : noise.value * trace / static_cast<double>(dim);
    if (!(trace > 0.0) || !(s2 > 0.0)) {
      outcomes[m] = Outcome::zero;
      return;
    }
    capacity.diagonal().array() += s2;
    // In place on the mapped memory; Eigen returns the index of the first bad pivot, or -1.
    Eigen::Ref<Eigen::MatrixXd, 0, Eigen::OuterStride<>> column_major(
        Eigen::Map<Eigen::MatrixXd>(capacity.data(), dim, dim));
    Eigen::LLT<Eigen::Ref<Eigen::MatrixXd, 0, Eigen::OuterStride<>>> cholesky(column_major);
    if (cholesky.info() != Eigen::Success) return;
    if (transformed) {
      inverse = transform;
    } else {
      inverse.setIdentity();
    }
    cholesky.matrixL().solveInPlace(inverse);
    if (!inverse.allFinite()) return;
    factor = inverse.template cast<float>();
    outcomes[m] = Outcome::usable;
  });
  for (std::int64_t m = 0; m < heads; ++m) {
    res.report().zero_capacity_heads += outcomes[m] == Outcome::zero ? 1 : 0;
    res.report().failed_factorizations += outcomes[m] == Outcome::failed ? 1 : 0;
  }
}

template <class T>
void leverage_scores_impl(Resources& res, const RowsView<T>& values,
                          MatrixBatchView<const float> factors, std::int64_t group,
                          ScoreView<> root_weights, ScoreView<> scores) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = values.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("leverage_scores.tiles", res.threads() * tile);
  float* products = scope.carve<float>("leverage_scores.products", res.threads() * tile);
  if (res.workspace().counting()) return;
  res.parallel_for(values.heads(), [&](std::int64_t h, int worker) {
    for (std::int64_t m = h * group; m < (h + 1) * group; ++m) {
      const auto factor = map_matrix(&factors(m, 0, 0), dim, dim, factors.stride[1]);
      const float* roots = root_weights.head(m);
      float* out = scores.head(m);
      for_each_tile(values.head(h), tiles + worker * tile,
                    [&](std::int64_t first, const auto& block) {
                      auto product = map_matrix(products + worker * tile, block.rows(), dim);
                      product.noalias() = block * factor.transpose();
                      for (Eigen::Index i = 0; i < block.rows(); ++i) {
                        // The norm first: its product with a small root does not underflow before
                        // the square is taken.
                        const float length = product.row(i).norm() * std::abs(roots[first + i]);
                        out[first + i] = length * length;
                      }
                    });
    }
  });
}

}  // namespace kvevict::cpu
