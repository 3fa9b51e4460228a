// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// Which covariance of the queries enters a score.
enum class Covariance { none, diagonal, full };

inline std::span<const EnumName<Covariance>> enum_names(Covariance) {
  static constexpr EnumName<Covariance> names[] = {
      {Covariance::none, "none"}, {Covariance::diagonal, "diagonal"}, {Covariance::full, "full"}};
  return names;
}

/// The evidence that a use of the covariance needs.
constexpr EvidenceSet evidence_for(Covariance covariance) {
  EvidenceSet needs = {EvidenceKind::query_stats};
  if (covariance == Covariance::diagonal) needs |= EvidenceKind::query_covariance_diagonal;
  if (covariance == Covariance::full) needs |= EvidenceKind::query_covariance_full;
  return needs;
}

/// logits[q][i] = scale * vectors[q] . rows[q / group][i] for `group` vectors per head, vectors
/// [heads * group][dim]. Reads the rows once for all vectors of a head.
template <class R, class T>
void query_logits(R& res, const RowsView<T, R::space>& rows,
                  MatrixView<const float, R::space> vectors, float scale,
                  ScoreView<R::space> logits) {
  detail::require_dim(vectors.shape[1], rows.dim(), "query_stats.mean.dim");
  const std::int64_t group =
      detail::require_group(vectors.shape[0], rows.heads(), "query_stats.mean.heads");
  detail::require_scores(logits, rows.layout(), group, "logits");
  query_logits_impl(res, rows, vectors, group, scale, logits);
}

/// out[q][i] = (add ? out[q][i] : 0) + scale * k^T C_q k with k = rows[q / group][i] and C_q the
/// covariance of query head q: its diagonal or the whole. The diagonal of a full covariance serves
/// where no diagonal is given. Symmetric C.
template <class R, class T>
void quadratic_form(R& res, const RowsView<T, R::space>& rows,
                    const QueryStatsView<R::space>& stats, Covariance covariance, float scale,
                    bool add, ScoreView<R::space> out) {
  require(covariance != Covariance::none, "covariance", "none", "diagonal or full");
  const bool full = covariance == Covariance::full || stats.diagonal.empty();
  const std::int64_t heads = full ? stats.covariance.shape[0] : stats.diagonal.shape[0];
  const std::int64_t dim = full ? stats.covariance.shape[2] : stats.diagonal.shape[1];
  detail::require_dim(dim, rows.dim(), "query_stats.covariance.dim");
  const std::int64_t group =
      detail::require_group(heads, rows.heads(), "query_stats.covariance.heads");
  detail::require_scores(out, rows.layout(), group, "out");
  quadratic_form_impl(res, rows, stats, covariance, group, scale, add, out);
}

}  // namespace kvevict
