// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/row_pieces.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/math/exponential.hpp"
#include "kvevict/ops/row_weighting.hpp"

namespace kvevict::cpu {

/// log(exp(score) + epsilon) without leaving the range of floats.
inline float add_in_log_domain(float score, double epsilon) {
  if (epsilon <= 0.0) return score;
  const double a = static_cast<double>(score);
  const double b = std::log(epsilon);
  const double high = std::max(a, b);
  return static_cast<float>(high + std::log1p(std::exp(std::min(a, b) - high)));
}

template <class T>
void weight_by_norm_impl(Resources& res, const RowsView<T>& rows,
                         MatrixBatchView<const float> transforms, std::int64_t group,
                         Epsilon epsilon, ReductionDomain domain, ScoreView<> scores) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t dim = rows.dim();
  const std::int64_t tile = tile_size(dim);
  float* tiles = scope.carve<float>("weight_by_norm.tiles", res.threads() * tile);
  float* products = scope.carve<float>("weight_by_norm.products", res.threads() * tile);
  if (res.workspace().counting()) return;
  const auto weigh_tile = [&](std::int64_t q, const MatrixMap<const float>& block, double added,
                              float* to, float* out) {
    const std::int64_t count = block.rows();
    auto product = map_matrix(to, count, dim);
    if (!transforms.empty()) {
      const auto transform = map_matrix(&transforms(q, 0, 0), dim, dim, transforms.stride[1]);
      product.noalias() = block * transform.transpose();
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const double norm = transforms.empty() ? wide_norm(block.row(i)) : wide_norm(product.row(i));
      out[i] = domain == ReductionDomain::logarithm
                   ? add_in_log_domain(out[i], added) + static_cast<float>(std::log(norm))
                   : static_cast<float>((static_cast<double>(out[i]) + added) * norm);
    }
  };
  for_each_piece(
      res, rows.layout(), [&](std::int64_t h, std::int64_t begin, std::int64_t end, int worker) {
        for_each_tile(rows.head(h), begin, end, tiles + worker * tile,
                      [&](std::int64_t first, const auto& block) {
                        for (std::int64_t q = h * group; q < (h + 1) * group; ++q) {
                          weigh_tile(q, block, epsilon.of(rows.rows(h)), products + worker * tile,
                                     scores.head(q) + begin + first);
                        }
                      });
      });
}

inline void raise_rows_impl(Resources& res, const Positions<>& positions,
                            const RaisedRows<>& raised, ScoreView<> scores) {
  if (res.workspace().counting()) return;
  res.parallel_for(scores.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = scores.layout.rows(h);
    const std::int64_t behind =
        positions.row(h, scores.layout).count_below(raised.from.of(h), rows);
    const std::int64_t begin = std::min(raised.first, behind);
    const std::int64_t end = std::max(begin, std::min(behind, rows - raised.last));
    float* out = scores.head(h);
    float largest = std::numeric_limits<float>::quiet_NaN();
    for (std::int64_t i = begin; i < end; ++i) {
      if (!(out[i] <= largest) && !std::isnan(out[i])) largest = out[i];
    }
    if (begin == end) largest = 0.0f;
    std::fill_n(out, begin, largest);
    std::fill(out + end, out + rows, largest);
  });
}

inline void exponential_root_weights_impl(Resources& res, ScoreView<> z, float scale, float offset,
                                          std::int64_t skip_first, ScoreView<> out) {
  if (res.workspace().counting()) return;
  res.parallel_for(z.layout.heads(), [&](std::int64_t h, int) {
    const std::int64_t rows = z.layout.rows(h);
    const std::int64_t skipped = std::min(skip_first, rows);
    const float* in = z.head(h);
    float* result = out.head(h);
    std::fill_n(result, skipped, 0.0f);
    if (skipped == rows) return;
    const float maximum =
        ArrayMap<const float>(in + skipped, rows - skipped).maxCoeff<Eigen::PropagateNaN>();
    // Half the exponent gives the root without squaring away small weights; an offset needs the
    // weight itself.
    if (offset == 0.0f) {
      for (std::int64_t i = skipped; i < rows; ++i) {
        result[i] = exp_nonpositive(0.5f * (scale * (in[i] - maximum)));
      }
    } else {
      for (std::int64_t i = skipped; i < rows; ++i) {
        result[i] = std::sqrt(exp_nonpositive(scale * (in[i] - maximum)) + offset);
      }
    }
  });
}

inline void multiply_by_root_impl(Resources& res, ScoreView<> quadratic, ScoreView<> jacobian) {
  if (res.workspace().counting()) return;
  res.parallel_for(jacobian.layout.heads(), [&](std::int64_t h, int) {
    const float* kappa = quadratic.head(h);
    float* out = jacobian.head(h);
    for (std::int64_t i = 0; i < jacobian.layout.rows(h); ++i) {
      out[i] *= std::sqrt(kappa[i] < 0.0f ? 0.0f : kappa[i]);
    }
  });
}

}  // namespace kvevict::cpu
