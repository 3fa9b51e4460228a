// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/query_block.hpp"
#include "kvevict/cpu/query_products.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/attention_statistic.hpp"

namespace kvevict::cpu {

/// How the queries of a KV head's group are divided into blocks: several whole query heads where
/// they have few queries that share registers well, else equal parts of one. Depends on nothing but
/// the head, as its scores must.
struct LaneBlocks {
  std::int64_t heads;    ///< query heads of a block
  std::int64_t queries;  ///< of each of them, the last block of a head perhaps fewer

  /// Lanes of a block.
  std::int64_t padded() const { return padded_queries(heads * queries); }
};

/// Logits of a block, as far as the least lanes allow it: 8 MiB.
inline constexpr std::int64_t block_logits = std::int64_t{1} << 21;

/// Blocks of up to 64 queries, fewer for long heads.
inline LaneBlocks lane_blocks(std::int64_t rows, std::int64_t group, std::int64_t queries) {
  const std::int64_t fitting = block_logits / std::max<std::int64_t>(rows, 1);
  const std::int64_t most =
      std::clamp<std::int64_t>(fitting / lane_count * lane_count, lane_count, block_queries);
  const bool whole_registers = queries % lane_count == 0;
  if (2 * queries <= most && (whole_registers || queries < lane_count)) {
    return {std::min(group, most / queries), queries};
  }
  const std::int64_t parts = (queries + most - 1) / most;
  return {1, (queries + parts - 1) / parts};
}

inline void finish(AttentionStatistic statistic, std::int64_t queries, std::int64_t n, float* out) {
  const float weight = 1.0f / static_cast<float>(queries);
  ArrayMap<float> row(out, n);
  if (statistic == AttentionStatistic::mean ||
      statistic == AttentionStatistic::mean_jacobian_diagonal) {
    row *= weight;
  } else if (statistic == AttentionStatistic::root_mean_square) {
    // Not Eigen's vectorised square root, whose AVX-512 form differs from the scalar one at a row's
    // end.
    for (std::int64_t j = 0; j < n; ++j) out[j] = std::sqrt(out[j] * weight);
  }
}

/// Most blocks that go over the keys of a head together.
inline constexpr std::int64_t most_blocks_of_a_pass = 2;

/// Blocks that do, of `padded` lanes each: keys that no cache holds are read half as often, and
/// converted half as often. One block where two would take more than 16 MiB.
inline std::int64_t blocks_of_a_pass(std::int64_t rows, std::int64_t padded) {
  return rows * padded <= block_logits ? most_blocks_of_a_pass : 1;
}

template <class T>
void attention_statistic_impl(Resources& res, const RowsView<T>& keys, const Positions<>& positions,
                              const ProbeQueries<>& probes, std::int64_t group, float scale,
                              AttentionStatistic statistic, float decay, ScoreView<> out) {
  const AttentionRequest request{probes, positions, keys.layout(), group,
                                 scale,  statistic, decay,         out};
  const std::int64_t count = probes.queries.count();
  const std::int64_t dim = keys.dim();
  const std::int64_t tile = tile_size(dim);
  std::int64_t logits_size = 0;
  std::int64_t references_size = 0;
  for (std::int64_t h = 0; h < keys.heads(); ++h) {
    const std::int64_t rows = keys.rows(h);
    const std::int64_t padded = lane_blocks(rows, group, count).padded();
    logits_size = std::max(logits_size, padded * rows * blocks_of_a_pass(rows, padded));
    references_size = std::max(references_size, padded * ((rows + tile_rows - 1) / tile_rows));
  }
  const std::int64_t packed_size = dim * block_queries;
  const std::int64_t blocks_in_memory = res.threads() * most_blocks_of_a_pass;
  WorkspaceScope scope(res.workspace());
  float* tiles = scope.carve<float>("attention_statistic.tiles", res.threads() * tile);
  float* logits = scope.carve<float>("attention_statistic.logits", res.threads() * logits_size);
  float* references =
      scope.carve<float>("attention_statistic.references", blocks_in_memory * references_size);
  float* packed = scope.carve<float>("attention_statistic.queries", blocks_in_memory * packed_size);
  float* query = scope.carve<float>("attention_statistic.query", res.threads() * dim);
  if (res.workspace().counting()) return;
  // Query heads that share no block have nothing to do with each other: fewer KV heads than threads
  // are work for up to as many threads as there are query heads. Neighbours stay together, to share
  // passes over the keys, where that leaves each thread two pieces of work.
  const std::int64_t pairs = (group + most_blocks_of_a_pass - 1) / most_blocks_of_a_pass;
  const bool in_pairs = keys.heads() * pairs >= 2 * res.threads();
  const std::int64_t neighbours = in_pairs ? most_blocks_of_a_pass : 1;
  const std::int64_t parts = in_pairs ? pairs : group;
  res.parallel_for(keys.heads() * parts, [&](std::int64_t index, int worker) {
    const std::int64_t h = index / parts;
    const HeadView<T> head = keys.head(h);
    const std::int64_t rows = head.rows;
    const LaneBlocks blocks = lane_blocks(rows, group, count);
    const std::int64_t begin = index % parts * neighbours * blocks.heads;
    const std::int64_t end = std::min(group, begin + neighbours * blocks.heads);
    if (rows == 0 || begin >= group) return;
    const std::int64_t block_size = rows * blocks.padded();
    const std::int64_t together = blocks_of_a_pass(rows, blocks.padded());
    std::optional<QueryBlock> pass[most_blocks_of_a_pass];
    std::int64_t filled = 0;
    const auto run_pass = [&] {
      std::int64_t seen = 0;
      for (std::int64_t b = 0; b < filled; ++b) seen = std::max(seen, pass[b]->seen());
      for_each_tile(head, 0, seen, tiles + worker * tile,
                    [&](std::int64_t start, const MatrixMap<const float>& key_tile) {
                      for (std::int64_t b = 0; b < filled; ++b) {
                        if (start < pass[b]->seen()) pass[b]->observe(key_tile, start);
                      }
                    });
      for (std::int64_t b = 0; b < filled; ++b) pass[b]->add_terms();
      filled = 0;
    };
    for (std::int64_t g = begin; g < end; g += blocks.heads) {
      const std::int64_t heads = std::min(blocks.heads, group - g);
      const std::int64_t first_head = h * group + g;
      for (std::int64_t q = 0; q < heads; ++q) std::fill_n(out.head(first_head + q), rows, 0.0f);
      for (std::int64_t first = 0; first < count; first += blocks.queries) {
        const std::int64_t slot = worker * most_blocks_of_a_pass + filled;
        pass[filled].emplace(request, rows, first_head, heads, first,
                             std::min(blocks.queries, count - first),
                             QueryBlockMemory{logits + worker * logits_size + filled * block_size,
                                              references + slot * references_size,
                                              packed + slot * packed_size, query + worker * dim});
        if (++filled == together) run_pass();
      }
    }
    run_pass();
    for (std::int64_t g = begin; g < end; ++g) {
      finish(statistic, count, rows, out.head(h * group + g));
    }
  });
}

}  // namespace kvevict::cpu
