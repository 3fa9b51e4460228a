// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/projection_factor.hpp"

namespace kvevict::cpu {

/// Replaces the lower triangle of `gram` by its Cholesky factor L and writes L^T. False when there
/// is none.
inline bool write_root(double* gram, std::int64_t dim, float* out, std::int64_t out_stride) {
  using Matrix = Eigen::Ref<Eigen::MatrixXd, 0, Eigen::OuterStride<>>;
  Eigen::Map<Eigen::MatrixXd> map(gram, dim, dim);
  map.diagonal().array() += 1e-12 * std::max(map.trace(), 1e-300) / static_cast<double>(dim);
  Matrix in_place(map);
  const Eigen::LLT<Matrix> cholesky(in_place);
  if (cholesky.info() != Eigen::Success) return false;
  auto root = map_matrix(out, dim, dim, out_stride);
  root.setZero();
  root.triangularView<Eigen::Upper>() = map.transpose().cast<float>();
  return root.allFinite();
}

template <class T>
void projection_factors_impl(Resources& res, MatrixView<T> w_o, MatrixBatchView<float> factors) {
  const std::int64_t heads = factors.shape[0];
  const std::int64_t dim = factors.shape[1];
  const std::int64_t tile = tile_size(dim);
  WorkspaceScope scope(res.workspace());
  float* floats = scope.carve<float>("projection_factors.rows", res.threads() * tile);
  double* doubles = scope.carve<double>("projection_factors.doubles", res.threads() * tile);
  double* grams = scope.carve<double>("projection_factors.gram", res.threads() * dim * dim);
  bool* usable = scope.carve<bool>("projection_factors.usable", heads);
  if (res.workspace().counting()) return;
  res.parallel_for(heads, [&](std::int64_t q, int worker) {
    MatrixView<T> columns = w_o;
    columns.data += q * dim * w_o.stride[1];
    columns.shape[1] = dim;
    double* gram = grams + worker * dim * dim;
    auto sum = map_matrix(gram, dim, dim);
    sum.setZero();
    for_each_tile(HeadView<T>::of(columns), floats + worker * tile,
                  [&](std::int64_t, const auto& block) {
                    auto rows = map_matrix(doubles + worker * tile, block.rows(), dim);
                    rows = block.template cast<double>();
                    sum.noalias() += rows.transpose() * rows;
                  });
    usable[q] = write_root(gram, dim, &factors(q, 0, 0), factors.stride[1]);
  });
  for (std::int64_t q = 0; q < heads; ++q) {
    require(usable[q], "w_o of query head", q, "finite", ErrorKind::numerical);
  }
}

inline void stack_factors_impl(Resources& res, MatrixBatchView<const float> factors,
                               std::int64_t group, MatrixBatchView<float> out) {
  const std::int64_t heads = out.shape[0];
  const std::int64_t dim = out.shape[1];
  WorkspaceScope scope(res.workspace());
  double* grams = scope.carve<double>("stack_factors.gram", res.threads() * dim * dim);
  double* doubles = scope.carve<double>("stack_factors.factor", res.threads() * dim * dim);
  bool* usable = scope.carve<bool>("stack_factors.usable", heads);
  if (res.workspace().counting()) return;
  res.parallel_for(heads, [&](std::int64_t h, int worker) {
    double* gram = grams + worker * dim * dim;
    auto sum = map_matrix(gram, dim, dim);
    sum.setZero();
    auto factor = map_matrix(doubles + worker * dim * dim, dim, dim);
    for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
      factor = map_matrix(&factors(q, 0, 0), dim, dim, factors.stride[1]).cast<double>();
      sum.noalias() += factor.transpose() * factor;
    }
    usable[h] = write_root(gram, dim, &out(h, 0, 0), out.stride[1]);
  });
  for (std::int64_t h = 0; h < heads; ++h) {
    require(usable[h], "output_projection of KV head", h, "finite", ErrorKind::numerical);
  }
}

}  // namespace kvevict::cpu
