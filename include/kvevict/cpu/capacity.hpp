// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/lane_products.hpp"
#include "kvevict/cpu/query_products.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/row_pieces.hpp"
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

/// gram = sum_i (scale roots[i])^2 v_i v_i^T over the rows [begin, end) of a head, its lower half.
/// `scaled` holds a tile of doubles.
template <class T>
void gram_of_piece(const HeadView<T>& values, std::int64_t begin, std::int64_t end,
                   const float* roots, double scale, float* tile, double* scaled,
                   MatrixMap<double> gram) {
  const std::int64_t dim = values.dim;
  gram.setZero();
  for_each_tile(values, begin, end, tile, [&](std::int64_t first, const auto& block) {
    auto rows = map_matrix(scaled, block.rows(), dim);
    for (Eigen::Index i = 0; i < block.rows(); ++i) {
      rows.row(i) = block.row(i).template cast<double>() *
                    (scale * static_cast<double>(roots[begin + first + i]));
    }
    add_gram_of_tile(scaled, dim, block.rows(), dim, gram.data(), gram.outerStride());
  });
}

/// gram += piece, their lower halves.
inline void add_gram(const MatrixMap<double>& piece, MatrixMap<double> gram) {
  gram.triangularView<Eigen::Lower>() += piece;
}

inline void mirror_gram(MatrixMap<double> gram) {
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

/// scores[i] = |factor (scale roots[i] v_i)|^2 for the rows [begin, end) of a head, with a factor
/// as pack_factor leaves it. `products` holds a tile of padded_queries(dim) columns.
template <class T>
void leverage_of_piece(const HeadView<T>& values, std::int64_t begin, std::int64_t end,
                       const float* packed, PackedShape shape, const float* roots, double scale,
                       float* tile, float* products, float* scores) {
  const std::int64_t dim = values.dim;
  const std::int64_t padded = padded_queries(dim);
  for_each_tile(
      values, begin, end, tile, [&](std::int64_t first, const MatrixMap<const float>& block) {
        multiply_packed(block, packed, padded, shape, products);
        const auto product = map_matrix<const float>(products, block.rows(), dim, padded);
        for (Eigen::Index i = 0; i < block.rows(); ++i) {
          const double length =
              wide_norm(product.row(i)) * scale * static_cast<double>(roots[begin + first + i]);
          scores[begin + first + i] = static_cast<float>(length * length);
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
  double* pieces = scope.carve<double>("weighted_gram.pieces", res.threads() * dim * dim);
  if (res.workspace().counting()) return;
  const auto gram_of = [&](std::int64_t m) {
    return map_matrix(&gram(m, 0, 0), dim, dim, gram.stride[1]);
  };
  const auto piece = [&](std::int64_t slot) {
    return map_matrix(pieces + slot * dim * dim, dim, dim);
  };
  for (std::int64_t m = 0; m < gram.shape[0]; ++m) gram_of(m).setZero();
  sum_pieces(
      res, values.layout().repeated(group),
      [&](std::int64_t m, std::int64_t begin, std::int64_t end, int worker, std::int64_t slot) {
        gram_of_piece(values.head(m / group), begin, end, root_weights.head(m), 1.0,
                      tiles + worker * tile, scaled + worker * tile, piece(slot));
      },
      [&](std::int64_t m, std::int64_t, std::int64_t slot) { add_gram(piece(slot), gram_of(m)); });
  for (std::int64_t m = 0; m < gram.shape[0]; ++m) mirror_gram(gram_of(m));
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
  const std::int64_t padded = padded_queries(dim);
  float* tiles = scope.carve<float>("leverage_scores.tiles", res.threads() * tile);
  float* packed = scope.carve<float>("leverage_scores.packed", res.threads() * dim * padded);
  float* products =
      scope.carve<float>("leverage_scores.products", res.threads() * tile_size(padded));
  if (res.workspace().counting()) return;
  for_each_piece(res, values.layout().repeated(group),
                 [&](std::int64_t m, std::int64_t begin, std::int64_t end, int worker) {
                   float* own = packed + worker * dim * padded;
                   const PackedShape shape =
                       pack_factor(map_matrix(&factors(m, 0, 0), dim, dim, factors.stride[1]), own);
                   leverage_of_piece(values.head(m / group), begin, end, own, shape,
                                     root_weights.head(m), 1.0, tiles + worker * tile,
                                     products + worker * tile_size(padded), scores.head(m));
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

/// What is known of a head between the passes over its values.
struct CapacityHead {
  double scale;
  PackedShape shape;
};

/// Only as many gram matrices and factors as there are threads, however many heads. Many heads are
/// worked on a thread each, so that the second pass over a head's values finds them in the cache;
/// few heads by all threads together.
template <class T>
void capacity_scores_impl(Resources& res, const RowsView<T>& values, ScoreView<> gram_roots,
                          MatrixBatchView<const float> transforms, Noise noise, std::int64_t group,
                          ScoreView<> leverage_roots, ScoreView<> scores) {
  const RowLayout<> layout = scores.layout;
  const std::int64_t heads = layout.heads();
  const std::int64_t dim = values.dim();
  const std::int64_t tile = tile_size(dim);
  const std::int64_t matrix = dim * dim;
  const std::int64_t padded = padded_queries(dim);
  const std::int64_t threads = res.threads();
  WorkspaceScope scope(res.workspace());
  float* tiles = scope.carve<float>("capacity_scores.tiles", threads * tile);
  float* factors = scope.carve<float>("capacity_scores.factors", threads * matrix);
  float* packed = scope.carve<float>("capacity_scores.packed", threads * dim * padded);
  float* products = scope.carve<float>("capacity_scores.products", threads * tile_size(padded));
  double* scaled = scope.carve<double>("capacity_scores.scaled", threads * tile);
  double* grams = scope.carve<double>("capacity_scores.grams", threads * matrix);
  double* scratch = scope.carve<double>("capacity_scores.scratch", threads * 3 * matrix);
  auto* known = scope.carve<CapacityHead>("capacity_scores.heads", threads);
  auto* outcomes = scope.carve<CapacityOutcome>("capacity_scores.outcomes", heads);
  if (res.workspace().counting()) return;
  const auto gram_of = [&](std::int64_t slot) {
    return map_matrix(grams + slot * matrix, dim, dim);
  };
  // A piece's sum lies where the factorisation will have its scratch.
  const auto piece = [&](std::int64_t slot) {
    return map_matrix(scratch + slot * 3 * matrix, dim, dim);
  };
  const auto begin_head = [&](std::int64_t m, std::int64_t slot) {
    // In units of the largest root the matrix and its factor stay within range however small the
    // weights are, and scale |F v| root is at most about 1.
    known[slot].scale = inverse_of_largest(gram_roots.head(m), layout.rows(m));
    gram_of(slot).setZero();
  };
  const auto sum_piece = [&](std::int64_t m, std::int64_t slot, std::int64_t begin,
                             std::int64_t end, std::int64_t worker, std::int64_t to) {
    gram_of_piece(values.head(m / group), begin, end, gram_roots.head(m), known[slot].scale,
                  tiles + worker * tile, scaled + worker * tile, piece(to));
  };
  const auto factorise = [&](std::int64_t m, std::int64_t slot) {
    Noise scaled_noise = noise;
    if (noise.kind == Noise::Kind::absolute) {
      scaled_noise.value *= known[slot].scale * known[slot].scale;
    }
    mirror_gram(gram_of(slot));
    auto factor = map_matrix(factors + slot * matrix, dim, dim);
    outcomes[m] = factor_of_gram(map_matrix<const double>(grams + slot * matrix, dim, dim),
                                 matrix_or_none(transforms, m, dim), scaled_noise,
                                 scratch + slot * 3 * matrix, factor);
    known[slot].shape =
        pack_factor(map_matrix<const float>(factor.data(), dim, dim), packed + slot * dim * padded);
  };
  const auto score_piece = [&](std::int64_t m, std::int64_t slot, std::int64_t begin,
                               std::int64_t end, std::int64_t worker) {
    if (outcomes[m] != CapacityOutcome::usable) {
      std::fill(scores.head(m) + begin, scores.head(m) + end, 0.0f);
      return;
    }
    leverage_of_piece(values.head(m / group), begin, end, packed + slot * dim * padded,
                      known[slot].shape, leverage_roots.head(m), known[slot].scale,
                      tiles + worker * tile, products + worker * tile_size(padded), scores.head(m));
  };
  if (few_heads(res, heads)) {
    for (std::int64_t m = 0; m < heads; ++m) begin_head(m, m);
    sum_pieces(
        res, layout,
        [&](std::int64_t m, std::int64_t begin, std::int64_t end, int worker, std::int64_t slot) {
          sum_piece(m, m, begin, end, worker, slot);
        },
        [&](std::int64_t m, std::int64_t, std::int64_t slot) {
          add_gram(piece(slot), gram_of(m));
        });
    res.parallel_for(heads, [&](std::int64_t m, int) { factorise(m, m); });
    for_each_piece(res, layout,
                   [&](std::int64_t m, std::int64_t begin, std::int64_t end, int worker) {
                     score_piece(m, m, begin, end, worker);
                   });
  } else {
    res.parallel_for(heads, [&](std::int64_t m, int worker) {
      begin_head(m, worker);
      sum_pieces_of_head(
          layout.rows(m),
          [&](std::int64_t begin, std::int64_t end) {
            sum_piece(m, worker, begin, end, worker, worker);
          },
          [&](std::int64_t) { add_gram(piece(worker), gram_of(worker)); });
      factorise(m, worker);
      score_piece(m, worker, 0, layout.rows(m), worker);
    });
  }
  count_outcomes(outcomes, heads, res.report());
}

}  // namespace kvevict::cpu
