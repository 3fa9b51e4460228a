// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/kv_view.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/ops/projection_factor.hpp"

namespace kvevict {

/// Whether values are seen through the output projection.
enum class ProjectionUse { none, factor };

inline std::span<const EnumName<ProjectionUse>> enum_names(ProjectionUse) {
  static constexpr EnumName<ProjectionUse> names[] = {{ProjectionUse::none, "none"},
                                                      {ProjectionUse::factor, "factor"}};
  return names;
}

namespace detail {

/// The transforms u = R v of a capacity policy: none, the factor of each query head, or for
/// `pooled` matrices the stacked factor of each KV head's group, carved from `scope`.
template <class R, class T>
MatrixBatchView<const float, R::space> value_transforms(R& res, WorkspaceScope& scope,
                                                        const KvView<const T, R::space>& cache,
                                                        const Evidence<R::space>& evidence,
                                                        ProjectionUse use, std::int64_t group,
                                                        bool pooled) {
  if (use == ProjectionUse::none) return {};
  require(evidence.output_projection->factors.shape[0] == cache.heads() * group,
          "output_projection.heads", evidence.output_projection->factors.shape[0],
          "equal to the query heads,", cache.heads() * group);
  if (!pooled) return evidence.output_projection->factors;
  const std::int64_t dim = cache.values().dim();
  const auto stacked = MatrixBatchView<float, R::space>::packed(
      scope.carve<float>("stacked_projection", cache.heads() * dim * dim), cache.heads(), dim, dim);
  stack_factors(res, evidence.output_projection->factors, stacked);
  return stacked;
}

}  // namespace detail

}  // namespace kvevict
