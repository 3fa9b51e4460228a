// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/lane_softmax.hpp"
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

  /// FloatLanes of a block.
  std::int64_t padded() const { return padded_queries(heads * queries); }
};

/// Blocks of up to 64 queries, fewer for long heads, so that their logits stay near 8 MiB.
inline LaneBlocks lane_blocks(std::int64_t rows, std::int64_t group, std::int64_t queries) {
  const std::int64_t floats = std::int64_t{1} << 21;
  const std::int64_t fitting = floats / std::max<std::int64_t>(rows, 1);
  const std::int64_t most =
      std::clamp<std::int64_t>(fitting / lane_count * lane_count, lane_count, block_queries);
  const bool whole_registers = queries % lane_count == 0;
  if (2 * queries <= most && (whole_registers || queries < lane_count)) {
    return {std::min(group, most / queries), queries};
  }
  const std::int64_t parts = (queries + most - 1) / most;
  return {1, (queries + parts - 1) / parts};
}

inline void add_attention_terms(AttentionStatistic statistic, const LaneSoftmax& block,
                                const float* powers, std::int64_t rows, std::int64_t padded,
                                std::int64_t count, std::int64_t heads, float* const* outs) {
  const auto add = [&]<AttentionStatistic s>() {
    add_attention_terms<s>(block, powers, rows, padded, count, heads, outs);
  };
  switch (statistic) {
    case AttentionStatistic::sum:
    case AttentionStatistic::mean:
      return add.template operator()<AttentionStatistic::sum>();
    case AttentionStatistic::root_mean_square:
      return add.template operator()<AttentionStatistic::root_mean_square>();
    case AttentionStatistic::maximum:
      return add.template operator()<AttentionStatistic::maximum>();
    case AttentionStatistic::mean_jacobian_diagonal:
      return add.template operator()<AttentionStatistic::mean_jacobian_diagonal>();
  }
}

/// A weight above one half can come so near 1 that 1 - p lost its digits.
inline void correct_largest(const LaneSoftmax& block, const float* powers, std::int64_t q,
                            float* out) {
  const double others = block.others(q);
  const double sum = 1.0 + others;
  if (sum >= 2.0) return;
  const float p = block.largest_weight(q);
  float& entry = out[block.find_largest(q, powers)];
  entry -= p * (1.0f - p);
  entry += static_cast<float>(others / (sum * sum));
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

template <class T>
void attention_statistic_impl(Resources& res, const RowsView<T>& keys, const Positions<>& positions,
                              const ProbeQueries<>& probes, std::int64_t group, float scale,
                              AttentionStatistic statistic, float decay, ScoreView<> out) {
  const QueriesView<>& queries = probes.queries;
  const std::int64_t count = queries.count();
  const std::int64_t dim = keys.dim();
  const std::int64_t tile = tile_size(dim);
  const bool largest_apart = statistic == AttentionStatistic::mean_jacobian_diagonal;
  // Logits in base 2 take a multiplication less for each power.
  constexpr float log2_e = 1.44269504089f;
  std::int64_t logits_size = 0;
  std::int64_t references_size = 0;
  for (std::int64_t h = 0; h < keys.heads(); ++h) {
    const std::int64_t rows = keys.rows(h);
    const std::int64_t padded = lane_blocks(rows, group, count).padded();
    logits_size = std::max(logits_size, padded * rows);
    references_size = std::max(references_size, padded * ((rows + tile_rows - 1) / tile_rows));
  }
  const std::int64_t packed_size = dim * block_queries;
  WorkspaceScope scope(res.workspace());
  float* tiles = scope.carve<float>("attention_statistic.tiles", res.threads() * tile);
  float* logits = scope.carve<float>("attention_statistic.logits", res.threads() * logits_size);
  float* references =
      scope.carve<float>("attention_statistic.references", res.threads() * references_size);
  float* packed_queries =
      scope.carve<float>("attention_statistic.queries", res.threads() * packed_size);
  float* query = scope.carve<float>("attention_statistic.query", res.threads() * dim);
  if (res.workspace().counting()) return;
  // Query heads that share no block have nothing to do with each other: fewer KV heads than threads
  // are work for up to as many threads as there are query heads.
  res.parallel_for(keys.heads() * group, [&](std::int64_t index, int worker) {
    const std::int64_t h = index / group;
    const HeadView<T> head = keys.head(h);
    const std::int64_t rows = head.rows;
    const LaneBlocks blocks = lane_blocks(rows, group, count);
    const std::int64_t g = index % group * blocks.heads;
    if (rows == 0 || g >= group) return;
    const std::int64_t heads = std::min(blocks.heads, group - g);
    const auto row_positions = positions.row(h, keys.layout());
    const auto visible_rows = [&](std::int64_t i) {
      if (probes.mask == ProbeMask::none) return rows;
      return row_positions.count_below(std::int64_t{probes.positions.at(h, i)} + 1, rows);
    };
    const std::int64_t first_head = h * group + g;
    for (std::int64_t q = 0; q < heads; ++q) std::fill_n(out.head(first_head + q), rows, 0.0f);
    float* block_logits = logits + worker * logits_size;
    float* packed = packed_queries + worker * packed_size;
    for (std::int64_t first = 0; first < count; first += blocks.queries) {
      const std::int64_t each = std::min(blocks.queries, count - first);
      const std::int64_t padded = padded_queries(heads * each);
      float* outs[block_queries];
      std::int64_t visible[block_queries];
      std::int64_t seen = 0;  // no query of the block sees more
      std::fill_n(packed, dim * padded, 0.0f);
      for (std::int64_t lane = 0; lane < heads * each; ++lane) {
        const std::int64_t q = first_head + lane / each;
        outs[lane / each] = out.head(q);
        visible[lane] = visible_rows(first + lane % each);
        seen = std::max(seen, visible[lane]);
        load_queries(queries, q, first + lane % each, 1, query + worker * dim);
        pack_query(query + worker * dim, dim, scale * log2_e, lane, padded, packed);
      }
      LaneSoftmax block(padded, largest_apart, references + worker * references_size);
      for_each_tile(head, 0, seen, tiles + worker * tile,
                    [&](std::int64_t start, const MatrixMap<const float>& key_tile) {
                      float* tile_logits = block_logits + start * padded;
                      multiply_queries(key_tile, packed, padded, tile_logits);
                      for (std::int64_t lane = 0; lane < heads * each; ++lane) {
                        for (std::int64_t i = std::max<std::int64_t>(0, visible[lane] - start);
                             i < key_tile.rows(); ++i) {
                          tile_logits[i * padded + lane] = -std::numeric_limits<float>::infinity();
                        }
                      }
                      block.observe(tile_logits, start, key_tile.rows());
                    });
      for (std::int64_t lane = 0; lane < heads * each; ++lane) {
        if (!(block.sum(lane) > 0.0)) continue;  // sees nothing, or NaN
        const auto age = static_cast<double>(count - 1 - first - lane % each);
        const bool decays = statistic == AttentionStatistic::sum && decay < 1.0f;
        block.set_weight(lane, decays ? std::pow(static_cast<double>(decay), age) : 1.0);
      }
      add_attention_terms(statistic, block, block_logits, seen, padded, each, heads, outs);
      for (std::int64_t lane = 0; lane < heads * each; ++lane) {
        float* head_out = outs[lane / each];
        if (std::isnan(block.sum(lane))) {
          std::fill_n(head_out, visible[lane], std::numeric_limits<float>::quiet_NaN());
        } else if (largest_apart && block.sum(lane) > 0.0) {
          correct_largest(block, block_logits, lane, head_out);
        }
      }
    }
    for (std::int64_t q = 0; q < heads; ++q) {
      finish(statistic, count, rows, out.head(first_head + q));
    }
  });
}

}  // namespace kvevict::cpu
