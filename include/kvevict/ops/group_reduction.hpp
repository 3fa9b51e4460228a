// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kvevict/core/parameter.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// How the scores of the query heads of a group become the score of their KV head.
enum class GroupReduction { mean, max, sum };

inline std::span<const EnumName<GroupReduction>> enum_names(GroupReduction) {
  static constexpr EnumName<GroupReduction> names[] = {
      {GroupReduction::mean, "mean"}, {GroupReduction::max, "max"}, {GroupReduction::sum, "sum"}};
  return names;
}

/// What the numbers are that a group reduction takes in and gives out.
enum class ReductionDomain {
  linear,      ///< the values themselves
  logarithm,   ///< logarithms of the values: log(mean exp), with the maximum subtracted
  square_root  ///< square roots of the values: sqrt(mean of squares)
};

/// out[h][i] = reduction over the group's query heads q of in[q][i], in the given domain; `in`
/// holds in.heads / out.heads blocks for each head. `out` may be the storage of `in` when the group
/// is 1. NaN propagates.
template <class R>
void reduce_group(R& res, ScoreView<R::space> in, GroupReduction reduction, ReductionDomain domain,
                  ScoreView<R::space> out) {
  const std::int64_t group =
      detail::require_group(in.layout.heads(), out.layout.heads(), "in.heads");
  detail::require_scores(in, out.layout, group, "in");
  reduce_group_impl(res, in, group, reduction, domain, out);
}

}  // namespace kvevict
