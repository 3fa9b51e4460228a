// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvevict/core/parameter.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// The regulariser s2 of a capacity matrix s2 I + M, M = sum_i w_i u_i u_i^T: an absolute number,
/// or `value` times trace(M) / d, which keeps scores independent of the scale of values and
/// weights. Text: `absolute:S` or `relative:C`.
struct Noise {
  enum class Kind { absolute, relative };
  Kind kind = Kind::relative;
  double value = 0.1;

  static constexpr Noise absolute(double s2) { return {Kind::absolute, s2}; }
  static constexpr Noise relative(double c) { return {Kind::relative, c}; }
  friend constexpr bool operator==(const Noise&, const Noise&) = default;
};

inline void parse_parameter(std::string_view name, std::string_view text, Noise& noise) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  require(colon != std::string_view::npos && (kind == "absolute" || kind == "relative"), name,
          detail::quoted(text), "absolute:NUMBER or relative:NUMBER");
  double value = 0.0;
  parse_parameter(name, text.substr(colon + 1), value);
  noise = kind == "absolute" ? Noise::absolute(value) : Noise::relative(value);
}

inline std::string format_parameter(const Noise& noise) {
  return (noise.kind == Noise::Kind::absolute ? "absolute:" : "relative:") +
         detail::text_of(noise.value);
}

inline void require_valid(const Noise& noise) {
  require(noise.value > 0.0 && noise.value < 1e300, "noise", noise.value, "finite and > 0");
}

/// gram[m] = sum_i s_i^2 v_i v_i^T [dim x dim], double, for `group` sets of root weights s per
/// head: weights hold group * heads blocks, gram group * heads matrices. Roots are given, not
/// weights, because weights span twice as many orders of magnitude and would underflow first.
/// Products and sums in double: the inverse of a matrix with condition number c amplifies what the
/// Gram matrix lost c times. Cost N dim^2 flops (symmetric) for each matrix.
template <class R, class T>
void weighted_gram(R& res, const RowsView<T, R::space>& values, ScoreView<R::space> root_weights,
                   MatrixBatchView<double, R::space> gram) {
  const std::int64_t group = detail::require_group(gram.shape[0], values.heads(), "gram.heads");
  detail::require_dim(gram.shape[1], values.dim(), "gram.dim");
  detail::require_scores(root_weights, values.layout(), group, "root_weights");
  weighted_gram_impl(res, values, root_weights, group, gram);
}

/// Factors of inverse capacity matrices: with M = R gram R^T (R the transform of the matrix, or I
/// when `transforms` is empty) and A = s2 I + M = L L^T, writes F = L^-1 R in fp32, so that |F x|^2
/// = (R x)^T A^-1 (R x). `transforms` holds one d x d matrix for each gram. Computed in double,
/// O(dim^3) each. A gram whose trace is zero, or that is not finite or positive definite, gets F =
/// 0 and is counted in the report (zero_capacity_heads, failed_factorizations).
template <class R>
void inverse_factor(R& res, MatrixBatchView<const double, R::space> gram,
                    MatrixBatchView<const float, R::space> transforms, Noise noise,
                    MatrixBatchView<float, R::space> factors) {
  require_valid(noise);
  require(factors.shape[0] == gram.shape[0], "factors.heads", factors.shape[0], "equal to",
          gram.shape[0]);
  detail::require_dim(factors.shape[1], gram.shape[1], "factors.dim");
  if (!transforms.empty()) {
    require(transforms.shape[0] == gram.shape[0], "output_projection.heads", transforms.shape[0],
            "equal to", gram.shape[0]);
    detail::require_dim(transforms.shape[1], gram.shape[1], "output_projection.dim");
  }
  inverse_factor_impl(res, gram, transforms, noise, factors);
}

/// scores[m][i] = |F_m (s_i v_i)|^2 = s_i^2 v_i^T F_m^T F_m v_i: the leverage of row i, its
/// marginal capacity. Shapes as in weighted_gram; `scores` may be the storage of `root_weights`.
/// Cost 2 N dim^2 flops for each matrix.
template <class R, class T>
void leverage_scores(R& res, const RowsView<T, R::space>& values,
                     MatrixBatchView<const float, R::space> factors,
                     ScoreView<R::space> root_weights, ScoreView<R::space> scores) {
  const std::int64_t group =
      detail::require_group(factors.shape[0], values.heads(), "factors.heads");
  detail::require_dim(factors.shape[2], values.dim(), "factors.dim");
  detail::require_scores(root_weights, values.layout(), group, "root_weights");
  detail::require_scores(scores, values.layout(), group);
  leverage_scores_impl(res, values, factors, group, root_weights, scores);
}

/// The three steps above in one: scores[m][i] = l_i^2 v_i^T R^T (s2 I + R G R^T)^-1 R v_i with G =
/// sum_i g_i^2 v_i v_i^T, g the `gram_roots` and l the `leverage_roots` of block m (usually the
/// same array; `scores` may be the storage of either). Holds one d x d matrix for each thread or
/// block of threads, not for each head. Agrees with double precision to 1e-4 for condition numbers
/// of the matrix up to 1e6 (relative noise above about 1e-6 dim); beyond, scores may pass 1 by as
/// much. Equal rows may differ in the last bit.
template <class R, class T>
void capacity_scores(R& res, const RowsView<T, R::space>& values, ScoreView<R::space> gram_roots,
                     MatrixBatchView<const float, R::space> transforms, Noise noise,
                     ScoreView<R::space> leverage_roots, ScoreView<R::space> scores) {
  require_valid(noise);
  const std::int64_t group =
      detail::require_group(scores.layout.heads(), values.heads(), "scores.heads");
  detail::require_scores(gram_roots, values.layout(), group, "gram_roots");
  detail::require_scores(leverage_roots, values.layout(), group, "leverage_roots");
  detail::require_scores(scores, values.layout(), group);
  if (!transforms.empty()) {
    require(transforms.shape[0] == scores.layout.heads(), "output_projection.heads",
            transforms.shape[0], "equal to", scores.layout.heads());
    detail::require_dim(transforms.shape[1], values.dim(), "output_projection.dim");
  }
  capacity_scores_impl(res, values, gram_roots, transforms, noise, group, leverage_roots, scores);
}

}  // namespace kvevict
