// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/positions.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/lane_softmax.hpp"
#include "kvevict/cpu/query_products.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/attention_statistic.hpp"

namespace kvevict::cpu {

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

/// What is asked of an attention statistic, for all heads.
struct AttentionRequest {
  const ProbeQueries<>& probes;
  const Positions<>& positions;
  const RowLayout<>& layout;
  std::int64_t group;
  float scale;
  AttentionStatistic statistic;
  float decay;
  ScoreView<> out;
};

/// Scratch memory of a QueryBlock.
struct QueryBlockMemory {
  float* logits;      ///< [rows][padded]
  float* references;  ///< [tiles][padded]
  float* packed;      ///< [dim][padded]
  float* query;       ///< [dim]
};

/// A block of queries of one KV head on its way over the rows: queries [first, first + each) of
/// `heads` query heads from `first_head` on.
class QueryBlock {
 public:
  QueryBlock(const AttentionRequest& request, std::int64_t rows, std::int64_t first_head,
             std::int64_t heads, std::int64_t first, std::int64_t each,
             const QueryBlockMemory& memory)
      : request_(request),
        memory_(memory),
        heads_(heads),
        first_(first),
        each_(each),
        padded_(padded_queries(heads * each)),
        softmax_(padded_, largest_apart(), memory.references) {
    // Logits in base 2 take a multiplication less for each power.
    constexpr float log2_e = 1.44269504089f;
    const QueriesView<>& queries = request.probes.queries;
    const std::int64_t dim = queries.dim();
    const std::int64_t h = first_head / request.group;
    const auto row_positions = request.positions.row(h, request.layout);
    std::fill_n(memory.packed, dim * padded_, 0.0f);
    for (std::int64_t lane = 0; lane < lanes(); ++lane) {
      const std::int64_t q = first_head + lane / each;
      const std::int64_t i = first + lane % each;
      outs_[lane / each] = request.out.head(q);
      visible_[lane] = rows;
      if (request.probes.mask == ProbeMask::by_position) {
        const std::int64_t position = request.probes.positions.at(h, i);
        visible_[lane] = row_positions.count_below(position + 1, rows);
      }
      seen_ = std::max(seen_, visible_[lane]);
      load_queries(queries, q, i, 1, memory.query);
      pack_query(memory.query, dim, request.scale * log2_e, lane, padded_, memory.packed);
    }
  }

  /// Rows that any of the queries sees: those from here on need not be observed.
  std::int64_t seen() const { return seen_; }

  /// Takes the keys of a tile, in order.
  void observe(const MatrixMap<const float>& keys, std::int64_t start) {
    float* logits = memory_.logits + start * padded_;
    multiply_queries(keys, memory_.packed, padded_, logits);
    for (std::int64_t lane = 0; lane < lanes(); ++lane) {
      for (std::int64_t i = std::max<std::int64_t>(0, visible_[lane] - start); i < keys.rows();
           ++i) {
        logits[i * padded_ + lane] = -std::numeric_limits<float>::infinity();
      }
    }
    softmax_.observe(logits, start, keys.rows());
  }

  /// Adds its terms to the statistics, when all rows have been observed.
  void add_terms() {
    const AttentionStatistic statistic = request_.statistic;
    for (std::int64_t lane = 0; lane < lanes(); ++lane) {
      if (!(softmax_.sum(lane) > 0.0)) continue;  // sees nothing, or NaN
      const auto age =
          static_cast<double>(request_.probes.queries.count() - 1 - first_ - lane % each_);
      const bool decays = statistic == AttentionStatistic::sum && request_.decay < 1.0f;
      softmax_.set_weight(lane, decays ? std::pow(static_cast<double>(request_.decay), age) : 1.0);
    }
    add_attention_terms(statistic, softmax_, memory_.logits, seen_, padded_, each_, heads_, outs_);
    for (std::int64_t lane = 0; lane < lanes(); ++lane) {
      float* out = outs_[lane / each_];
      if (std::isnan(softmax_.sum(lane))) {
        std::fill_n(out, visible_[lane], std::numeric_limits<float>::quiet_NaN());
      } else if (largest_apart() && softmax_.sum(lane) > 0.0) {
        correct_largest(softmax_, memory_.logits, lane, out);
      }
    }
  }

 private:
  std::int64_t lanes() const { return heads_ * each_; }
  bool largest_apart() const {
    return request_.statistic == AttentionStatistic::mean_jacobian_diagonal;
  }

  const AttentionRequest& request_;
  QueryBlockMemory memory_;
  std::int64_t heads_;
  std::int64_t first_;
  std::int64_t each_;
  std::int64_t padded_;
  std::int64_t seen_ = 0;
  float* outs_[block_queries];
  std::int64_t visible_[block_queries];
  LaneSoftmax softmax_;
};

}  // namespace kvevict::cpu
