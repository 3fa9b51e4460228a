// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/allocators/weighted_division.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/core/head_ranks.hpp"
#include "kvevict/core/workspace.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/shared_scores.hpp"

namespace kvevict::detail {

/// Throws unless units of `together` consecutive heads, of all processes, are whole and hold
/// equally many rows, and each of the groups of `group` heads that divide their rows consists of
/// units. Over processes a unit is a layer.
template <MemorySpace S>
void require_units(const RowLayout<S>& layout, std::int64_t together, std::int64_t group,
                   const HeadRanks& ranks) {
  require(together >= 1, "heads_together", together, ">=", 1);
  if (together == 1) return;
  if (!ranks.alone()) {
    require(S == MemorySpace::host, "heads_together", together,
            "1 for scores on a device whose layers are spread over processes",
            ErrorKind::unsupported);
    require(together == ranks.layer_heads, "heads_together", together,
            "equal to ranks.layer_heads,", ranks.layer_heads);
  }
  const std::int64_t here = ranks.alone() ? together : ranks.heads;
  require(group % here == 0, "heads_together", together, "a divisor of the heads of a group,",
          group);
  require_equal_rows(layout, here);
}

/// shared: the means over the heads of each layer, which are spread over processes, summed in the
/// order of the heads as in one process. The bits of the scores travel as integers, those of one
/// layer at a time.
template <class R>
void share_over_ranks(R& res, ScoreView<> scores, const HeadRanks& ranks, ScoreView<> shared) {
  WorkspaceScope scope(res.host_workspace());
  auto* bits = scope.template carve<std::int64_t>("layers.scores_of_all",
                                                  ranks.layer_heads * scores.layout.longest());
  if (res.workspace().counting()) return;
  for (std::int64_t first = 0; first < scores.layout.heads(); first += ranks.heads) {
    const std::int64_t rows = scores.layout.rows(first);
    std::fill_n(bits, ranks.layer_heads * rows, std::int64_t{0});
    for (std::int64_t i = 0; i < ranks.heads * rows; ++i) {
      bits[ranks.first_head * rows + i] = bit_cast<std::uint32_t>(scores.head(first)[i]);
    }
    ranks.add(bits, ranks.layer_heads * rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0.0;
      for (std::int64_t h = 0; h < ranks.layer_heads; ++h) {
        sum += static_cast<double>(bit_cast<float>(static_cast<std::uint32_t>(bits[h * rows + i])));
      }
      const auto mean = static_cast<float>(sum * (1.0 / static_cast<double>(ranks.layer_heads)));
      for (std::int64_t h = 0; h < ranks.heads; ++h) shared.head(first)[h * rows + i] = mean;
    }
  }
}

/// The scores that an allocator counts by: the heads of a unit all have the mean of theirs. The
/// scores themselves where a unit is one head.
template <class R>
ScoreView<R::space> scores_of_units(R& res, WorkspaceScope& scope, ScoreView<R::space> scores,
                                    std::int64_t together, const HeadRanks& ranks) {
  const std::int64_t room = together > 1 ? scores.layout.total() : 0;
  const ScoreView<R::space> shared{scope.template carve<float>("layers.scores", room),
                                   scores.layout};
  if (together == 1) return scores;
  if constexpr (R::space == MemorySpace::host) {
    if (!ranks.alone()) {
      share_over_ranks(res, scores, ranks, shared);
      return shared;
    }
  }
  reduce_group(res, scores, GroupReduction::mean, ReductionDomain::linear, shared);  // a copy
  share_scores(res, shared, together, GroupReduction::mean);
  return shared;
}

/// counts: what the heads of each unit have together, divided among them evenly: equally many rows,
/// but for one where the number is no multiple, the protected ones and those of a floor or cap.
template <class R>
void level_units(R& res, const AllocationInput<R::space>& input, std::int64_t together,
                 std::int64_t floor, std::int64_t cap, const HeadRanks& ranks,
                 std::int64_t* counts) {
  if (together == 1) return;
  const std::int64_t heads = input.scores.layout.heads();
  WorkspaceScope scope(res.host_workspace());
  auto* given = scope.template carve<std::int64_t>("layers.counts", heads);
  auto* weights = scope.template carve<std::int64_t>("layers.weights", heads);
  if (!res.workspace().counting()) {
    std::copy_n(counts, heads, given);
    std::fill_n(weights, heads, std::int64_t{1});
  }
  AllocationInput<R::space> of_units = input;
  of_units.shares = given;
  divide_by_weights(res, of_units, weights, floor, cap,
                    HeadColumns::consecutive(ranks.all_heads(heads), together), ranks, counts);
}

}  // namespace kvevict::detail
