// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kvevict/core/parameter.hpp"
#include "kvevict/core/positions.hpp"
#include "kvevict/core/queries.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

enum class Pooling { average, max };

inline std::span<const EnumName<Pooling>> enum_names(Pooling) {
  static constexpr EnumName<Pooling> names[] = {{Pooling::average, "average"},
                                                {Pooling::max, "max"}};
  return names;
}

/// In place over the rows j of each head's prefix (rows at positions below prefix.position; the
/// others stay as they are): out[j] = average or maximum of in[j - kernel/2 .. j + kernel/2] within
/// the prefix. `kernel` is odd. With `count_padding` an average always divides by the kernel, as if
/// zeros surrounded the prefix; without, by the number of rows it saw. A NaN spreads over its
/// neighbourhood. kernel 1 changes nothing. `scores` holds one or more blocks for each head of
/// `layout`, which `positions` belong to.
template <class R>
void pool_rows(R& res, const Positions<R::space>& positions, const RowLayout<R::space>& layout,
               const PositionBound<R::space>& prefix, std::int64_t kernel, Pooling pooling,
               bool count_padding, ScoreView<R::space> scores) {
  require(kernel >= 1 && kernel % 2 == 1, "kernel", kernel, "odd and >= 1");
  const std::int64_t group =
      detail::require_group(scores.layout.heads(), layout.heads(), "scores.heads");
  detail::require_scores(scores, layout, group);
  if (kernel == 1) return;
  pool_rows_impl(res, positions, layout, prefix, kernel, pooling, count_padding, scores);
}

}  // namespace kvevict
