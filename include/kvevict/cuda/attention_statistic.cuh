// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  WorkspaceScope scope(res.workspace());
  WeightedQueries queries(scope, keys, probes, group, scale);
  if (res.workspace().counting()) return;
  const RowsView<const Element, MemorySpace::device> rows = keys;
  queries.enqueue(res, rows, positions, probes,
                  statistic == AttentionStatistic::sum ? decay : 1.0f);
  with_query_columns(queries.stacked.count(), [&](auto columns) {
    const std::int64_t row_tiles = tiles_of(keys.layout().longest(), 64);
    launch(res, "attention_rows", detail::attention_rows<Element, decltype(columns)::value>,
           keys.heads() * row_tiles, 128, 0, rows, queries.stacked, row_tiles, statistic,
           static_cast<const QueryWeight*>(queries.weights), out);
  });
}

}  // namespace kvevict::cuda
