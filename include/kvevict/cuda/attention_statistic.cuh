// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kvevict/core/workspace.hpp"
#include "kvevict/cuda/attention_rows.cuh"
#include "kvevict/cuda/attention_states.cuh"
#include "kvevict/ops/attention_statistic.hpp"

namespace kvevict::cuda {

/// Two passes over the keys, both of tile products that never leave the block: the states of the
/// softmax of each query, then the statistic of each row. 4 n N dim flops and 2 n N exponentials
/// for each query head; the keys come from memory once a pass, whatever the group. Four launches,
/// none of which waits. Workspace for each query of each head: 24 bytes and 16 for each 1024 rows,
/// at most 1 KiB.
template <class T>
void attention_statistic_impl(Resources& res, const RowsView<T, MemorySpace::device>& keys,
                              const Positions<MemorySpace::device>& positions,
                              const ProbeQueries<MemorySpace::device>& probes, std::int64_t group,
                              float scale, AttentionStatistic statistic, float decay,
                              ScoreView<MemorySpace::device> out) {
  using Element = std::remove_const_t<T>;
  const std::int64_t heads = keys.heads();
  const std::int64_t queries = heads * group * probes.queries.count();
  const bool masked = probes.mask == ProbeMask::by_position;
  StackedQueries stacked;
  stacked.queries = probes.queries;
  stacked.group = group;
  stacked.scale = scale;
  stacked.max_splits =
      std::max<std::int64_t>(StackedQueries::Splits::most(keys.layout().longest()), 1);
  WorkspaceScope scope(res.workspace());
  auto* visible = scope.carve<std::int64_t>("attention_statistic.visible",
                                            masked ? heads * probes.queries.count() : 0);
  auto* states =
      scope.carve<SoftmaxState>("attention_statistic.states", queries * stacked.max_splits);
  auto* weights = scope.carve<QueryWeight>("attention_statistic.weights", queries);
  if (res.workspace().counting()) return;
  if (masked) {
    stacked.visible = visible;
    launch(res, "count_visible_rows", detail::count_visible_rows,
           tiles_of(heads * probes.queries.count(), 128), 128, 0, keys.layout(), positions,
           probes.positions, probes.queries.count(), visible);
  }
  const RowsView<const Element, MemorySpace::device> rows = keys;
  with_query_columns(stacked.count(), [&](auto columns) {
    constexpr int size = decltype(columns)::value;
    const std::int64_t column_tiles = tiles_of(stacked.count(), size);
    launch(res, "attention_states", detail::attention_states<Element, size>,
           heads * stacked.max_splits * column_tiles, 128, 0, rows, stacked, column_tiles, states);
    launch(res, "finish_query_weights", detail::finish_query_weights, tiles_of(queries, 128), 128,
           0, keys.layout(), stacked, statistic == AttentionStatistic::sum ? decay : 1.0f,
           static_cast<const SoftmaxState*>(states), weights);
    const std::int64_t row_tiles = tiles_of(keys.layout().longest(), 64);
    launch(res, "attention_rows", detail::attention_rows<Element, size>, heads * row_tiles, 128, 0,
           rows, stacked, row_tiles, statistic, static_cast<const QueryWeight*>(weights), out);
  });
}

}  // namespace kvevict::cuda
