// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/positions.hpp"
#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/tile.hpp"

namespace kvevict::cpu {

/// Queries whose logits over all rows of a head are held at once: up to 64, fewer for long heads,
/// so that the block stays near 4 MiB: smaller blocks pack the keys of long heads too often.
/// Depends on nothing but the head, as its scores must.
inline std::int64_t query_block(std::int64_t rows, std::int64_t queries) {
  const std::int64_t floats = std::int64_t{1} << 20;
  const std::int64_t fitting = floats / std::max<std::int64_t>(rows, 1);
  return std::max<std::int64_t>(1, std::min<std::int64_t>({64, queries, fitting}));
}

/// Logits of probes over the rows of a head, a block of queries at a time. The queries of a group
/// lie under each other, so that a block of keys is converted and packed once for all: stacked
/// query i is query i % n of the group's query head i / n. Memory is carved from `scope`.
template <class T>
class AttentionBlocks {
 public:
  AttentionBlocks(Resources& res, WorkspaceScope& scope, const RowsView<T>& keys,
                  const Positions<>& positions, const ProbeQueries<>& probes, std::int64_t group,
                  float scale)
      : keys_(keys), positions_(positions), probes_(probes), group_(group), scale_(scale) {
    for (std::int64_t h = 0; h < keys.heads(); ++h) {
      logits_size_ = std::max(logits_size_, query_block(keys.rows(h), stacked()) * keys.rows(h));
    }
    tiles_ = scope.carve<float>("attention.tiles", res.threads() * tile_size(keys.dim()));
    logits_ = scope.carve<float>("attention.logits", res.threads() * logits_size_);
    queries_ = scope.carve<float>("attention.queries", res.threads() * queries_size());
  }

  /// Queries of each KV head.
  std::int64_t stacked() const { return group_ * probes_.queries.count(); }
  std::int64_t largest_block() const { return std::min<std::int64_t>(64, stacked()); }
  std::int64_t query_of(std::int64_t i) const { return i % probes_.queries.count(); }
  std::int64_t head_of(std::int64_t h, std::int64_t i) const {
    return h * group_ + i / probes_.queries.count();
  }
  /// How many rows of head h a stacked query sees.
  std::int64_t visible_rows(std::int64_t h, std::int64_t i) const {
    if (probes_.mask == ProbeMask::none) return keys_.rows(h);
    const std::int64_t position = probes_.positions.at(h, query_of(i));
    return positions_.row(h, keys_.layout()).count_below(position + 1, keys_.rows(h));
  }

  /// Calls use(first, count, rows, logits) for every block of head h, in order: logits [count] of
  /// the queries from `first` on, each as many floats after the one before as the head has rows.
  /// They are written for the first `rows` rows: no query of the block sees beyond.
  template <class Use>
  void for_each(std::int64_t h, int worker, Use&& use) const {
    const HeadView<T> head = keys_.head(h);
    const std::int64_t dim = head.dim;
    float* logits = logits_ + worker * logits_size_;
    float* query_tile = queries_ + worker * queries_size();
    const std::int64_t block = query_block(head.rows, stacked());
    for (std::int64_t first = 0; first < stacked(); first += block) {
      const std::int64_t count = std::min(block, stacked() - first);
      HeadView<T> visible_head = head;
      visible_head.rows = 0;
      for (std::int64_t i = 0; i < count; ++i) {
        load_queries(probes_.queries, head_of(h, first + i), query_of(first + i), 1,
                     query_tile + i * dim);
        visible_head.rows = std::max(visible_head.rows, visible_rows(h, first + i));
      }
      auto scaled_queries = map_matrix(query_tile, count, dim);
      scaled_queries *= scale_;
      for_each_tile(visible_head, tiles_ + worker * tile_size(dim),
                    [&](std::int64_t start, const auto& key_block) {
                      map_matrix(logits + start, count, key_block.rows(), head.rows).noalias() =
                          scaled_queries * key_block.transpose();
                    });
      use(first, count, visible_head.rows, logits);
    }
  }

 private:
  std::int64_t queries_size() const { return largest_block() * keys_.dim(); }

  const RowsView<T>& keys_;
  const Positions<>& positions_;
  const ProbeQueries<>& probes_;
  std::int64_t group_;
  float scale_;
  std::int64_t logits_size_ = 0;
  float* tiles_ = nullptr;
  float* logits_ = nullptr;
  float* queries_ = nullptr;
};

}  // namespace kvevict::cpu
