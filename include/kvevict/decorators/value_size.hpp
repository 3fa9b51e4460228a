// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/projected_norms.hpp"
#include "kvevict/ops/row_norms.hpp"

namespace kvevict {

/// The size of a value.
enum class ValueSize {
  norm,           ///< |v|_2
  projected,      ///< |W_O v|_2, mean over the query heads of the group
  projected_sum,  ///< |W_O v|_1, mean over the query heads of the group
};

inline std::span<const EnumName<ValueSize>> enum_names(ValueSize) {
  static constexpr EnumName<ValueSize> names[] = {{ValueSize::norm, "norm"},
                                                  {ValueSize::projected, "projected"},
                                                  {ValueSize::projected_sum, "projected_sum"}};
  return names;
}

namespace detail {

/// sizes[h][i] of the value of row i of head h.
template <class R, class T>
void write_value_sizes(R& res, ValueSize size, const KvView<const T, R::space>& cache,
                       const Evidence<R::space>& evidence, ScoreView<R::space> sizes) {
  if (size == ValueSize::norm) return row_norms(res, cache.values(), 1.0f, sizes);
  const MatrixBatchView<const float, R::space>& projections = evidence.output_projection->factors;
  const std::int64_t group =
      detail::require_group(projections.shape[0], cache.heads(), "output_projection.heads");
  const RowLayout<R::space> per_query_head = cache.layout().repeated(group);
  WorkspaceScope scope(res.workspace());
  const ScoreView<R::space> norms{
      scope.template carve<float>("value_sizes.norms", per_query_head.total()), per_query_head};
  projected_norms(
      res, cache.values(), projections,
      size == ValueSize::projected ? ProjectedNorm::euclidean : ProjectedNorm::absolute_sum, norms);
  reduce_group(res, norms, GroupReduction::mean, ReductionDomain::linear, sizes);
}

}  // namespace detail

}  // namespace kvevict
