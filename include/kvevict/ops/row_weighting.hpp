// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvevict/core/positions.hpp"
#include "kvevict/core/queries.hpp"
#include "kvevict/ops/checks.hpp"
#include "kvevict/ops/group_reduction.hpp"

namespace kvevict {

/// A small number added to attention weights, absolute or in units of 1 / rows of the head (a
/// uniform weight). Text: `absolute:E` or `per_row:E`.
struct Epsilon {
  enum class Kind { absolute, per_row };
  Kind kind = Kind::absolute;
  double value = 0.0;

  static constexpr Epsilon absolute(double e) { return {Kind::absolute, e}; }
  static constexpr Epsilon per_row(double e) { return {Kind::per_row, e}; }
  KVEVICT_HOST_DEVICE constexpr double of(std::int64_t rows) const {
    return kind == Kind::absolute || rows == 0 ? value : value / static_cast<double>(rows);
  }
  friend constexpr bool operator==(const Epsilon&, const Epsilon&) = default;
};

inline void parse_parameter(std::string_view name, std::string_view text, Epsilon& epsilon) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  require(colon != std::string_view::npos && (kind == "absolute" || kind == "per_row"), name,
          detail::quoted(text), "absolute:NUMBER or per_row:NUMBER");
  double value = 0.0;
  parse_parameter(name, text.substr(colon + 1), value);
  epsilon = kind == "absolute" ? Epsilon::absolute(value) : Epsilon::per_row(value);
}

inline std::string format_parameter(const Epsilon& epsilon) {
  return (epsilon.kind == Epsilon::Kind::absolute ? "absolute:" : "per_row:") +
         detail::text_of(epsilon.value);
}

/// scores[q][i] = (scores[q][i] + epsilon) * |v|, v = rows[q / group][i], or |R_q v| when
/// `transforms` gives a d x d matrix for each block of scores. In the logarithm domain scores are
/// logarithms: log(exp(score) + epsilon) + log|v|. In place; reads the rows once, plus 2 N dim^2
/// flops for each transform.
template <class R, class T>
void weight_by_norm(R& res, const RowsView<T, R::space>& rows,
                    MatrixBatchView<const float, R::space> transforms, Epsilon epsilon,
                    ReductionDomain domain, ScoreView<R::space> scores) {
  const std::int64_t group =
      detail::require_group(scores.layout.heads(), rows.heads(), "scores.heads");
  detail::require_scores(scores, rows.layout(), group);
  if (!transforms.empty()) {
    require(transforms.shape[0] == scores.layout.heads(), "output_projection.heads",
            transforms.shape[0], "equal to", scores.layout.heads());
    detail::require_dim(transforms.shape[2], rows.dim(), "output_projection.dim");
  }
  require(epsilon.value >= 0.0 && epsilon.value < 1e30, "epsilon", epsilon.value,
          "finite and >=", 0);
  weight_by_norm_impl(res, rows, transforms, group, epsilon, domain, scores);
}

/// Rows that a policy leaves out of its normaliser and therefore ranks first: the first `first` and
/// the last `last` rows of a head and those at positions from `from` on.
template <MemorySpace S = MemorySpace::host>
struct RaisedRows {
  std::int64_t first = 0;
  PositionBound<S> from = {};
  std::int64_t last = 0;
};

/// Gives the raised rows of each head the largest score among its other rows, so that a caller who
/// protects nothing still keeps them first; 0 when there are no others. NaN among the others is
/// passed over.
template <class R>
void raise_rows(R& res, const Positions<R::space>& positions, const RaisedRows<R::space>& raised,
                ScoreView<R::space> scores) {
  raise_rows_impl(res, positions, raised, scores);
}

/// out[q][i] = sqrt(exp(scale (z[q][i] - max z[q])) + offset): the root of CapKV's weight, z a
/// cosine or a logit. The first `skip_first` rows take no part and get 0. `out` may be the storage
/// of `z`.
template <class R>
void exponential_root_weights(R& res, ScoreView<R::space> z, float scale, float offset,
                              std::int64_t skip_first, ScoreView<R::space> out) {
  require(skip_first >= 0, "skip_first", skip_first, ">=", 0);
  detail::require_scores(out, z.layout, 1, "out");
  exponential_root_weights_impl(res, z, scale, offset, skip_first, out);
}

/// root[q][i] = jacobian[q][i] * sqrt(max(quadratic[q][i], 0)): the root of Jacap's weight rho^2
/// kappa / d, given kappa / d. In place on `jacobian`.
template <class R>
void multiply_by_root(R& res, ScoreView<R::space> quadratic, ScoreView<R::space> jacobian) {
  detail::require_scores(quadratic, jacobian.layout, 1, "quadratic");
  multiply_by_root_impl(res, quadratic, jacobian);
}

}  // namespace kvevict
