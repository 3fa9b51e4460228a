// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kvevict/core/rows_view.hpp"
#include "kvevict/cpu/attention_blocks.hpp"
#include "kvevict/cpu/eigen.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/softmax.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/drop_loss.hpp"

namespace kvevict::cpu {

/// What makes the exponentials e of one query weights, and its row with more than half of the
/// weight, if there is one: weights over the rows but that one are held.
struct DroppedQuery {
  float unit = 0.0f;           ///< e of a weight of 1: the sum of the rows' whose weights are held
  float sum = 0.0f;            ///< of all e
  double dominant_weight = 0;  ///< over all rows
  std::int64_t dominant = -1;  ///< -1: none
};

/// Scratch of one thread.
struct DropLossScratch {
  float* values;          ///< [tile_rows][dim]
  float* channels;        ///< [outputs][tile_rows]
  float* outputs;         ///< [queries][dim]
  float* projected;       ///< [queries][outputs]
  float* row;             ///< [dim]
  DroppedQuery* queries;  ///< [queries]
  double* squares;        ///< [longest head]
};

/// Replaces the logits of a query by weights that sum to one: 0 where it sees nothing and at its
/// dominant row. The others' are formed before they meet the values, so that they may be any small
/// part of the whole.
inline DroppedQuery weigh(float* logits, std::int64_t visible, std::int64_t rows) {
  DroppedQuery query;
  std::fill(logits + visible, logits + rows, 0.0f);
  const Exponentials all = exponentials(logits, visible);
  double sum = all.sum;
  if (visible > 0 && 2.0 * static_cast<double>(logits[all.largest]) > all.sum) {
    query.dominant = all.largest;
    query.dominant_weight = static_cast<double>(logits[all.largest]) / all.sum;
    logits[all.largest] = 0.0f;
    sum = all.others;
  }
  query.unit = static_cast<float>(sum);
  query.sum = static_cast<float>(all.sum);
  ArrayMap<float>(logits, visible) *= static_cast<float>(sum == 0.0 ? 0.0 : 1.0 / sum);
  return query;
}

/// squares[j] += (odds_j |x_j - y|)^2 for the rows of a tile, x_j in `channels`
/// [channel][tile_rows], odds e / (sum - e). Differences in fp32, squares of them times the odds in
/// double: odds of 1e-20 count.
inline void add_changes(const DroppedQuery& query, const float* weights, const float* channels,
                        const float* y, std::int64_t dim, std::int64_t count, double* squares) {
  constexpr int lanes = 16;
  using Lanes = Eigen::Array<float, lanes, 1>;
  for (std::int64_t first = 0; first < count; first += lanes) {
    Lanes distance = Lanes::Zero();
    for (std::int64_t c = 0; c < dim; ++c) {
      distance += (Eigen::Map<const Lanes>(channels + c * tile_rows + first) - y[c]).square();
    }
    const std::int64_t present = std::min<std::int64_t>(lanes, count - first);
    for (std::int64_t j = 0; j < present; ++j) {
      const float e = weights[first + j] * query.unit;
      const auto odds = static_cast<double>(e / (query.sum - e));
      // No weight, no change, also where the distance has left fp32.
      squares[first + j] += e == 0.0f ? 0.0 : odds * odds * static_cast<double>(distance[j]);
    }
  }
}

template <class T>
void drop_loss_impl(Resources& res, const RowsView<T>& keys, const RowsView<T>& values,
                    const Positions<>& positions, const ProbeQueries<>& probes, std::int64_t group,
                    float scale, const MatrixBatchView<const float>& transforms, ScoreView<> out) {
  const std::int64_t dim = values.dim();
  const bool projected = !transforms.empty();
  const std::int64_t outputs_dim = projected ? transforms.shape[1] : dim;
  WorkspaceScope scope(res.workspace());
  const AttentionBlocks<T> blocks(res, scope, keys, positions, probes, group, scale);
  const std::int64_t block = blocks.largest_block();
  const std::int64_t longest = keys.layout().longest();
  const std::int64_t threads = res.threads();
  float* tiles = scope.carve<float>("drop_loss.tiles", threads * tile_size(dim));
  float* channels = scope.carve<float>("drop_loss.channels", threads * tile_size(outputs_dim));
  float* outputs = scope.carve<float>("drop_loss.outputs", threads * block * dim);
  float* seen = scope.carve<float>("drop_loss.projected", threads * block * outputs_dim);
  float* rows_at = scope.carve<float>("drop_loss.row", threads * dim);
  auto* queries = scope.carve<DroppedQuery>("drop_loss.queries", threads * block);
  auto* squares = scope.carve<double>("drop_loss.squares", threads * longest);
  if (res.workspace().counting()) return;
  res.parallel_for(keys.heads(), [&](std::int64_t h, int worker) {
    const HeadView<T> head = values.head(h);
    const std::int64_t rows = head.rows;
    if (rows == 0) return;
    const DropLossScratch own{
        tiles + worker * tile_size(dim), channels + worker * tile_size(outputs_dim),
        outputs + worker * block * dim,  seen + worker * block * outputs_dim,
        rows_at + worker * dim,          queries + worker * block,
        squares + worker * longest};
    std::fill_n(own.squares, rows, 0.0);
    std::fill_n(own.channels, tile_size(outputs_dim), 0.0f);  // also behind a short tile
    const auto transform_of = [&](std::int64_t q) {
      return map_matrix(&transforms(q, 0, 0), outputs_dim, dim, transforms.stride[1]);
    };
    blocks.for_each(
        h, worker,
        [&](std::int64_t first, std::int64_t count, std::int64_t visible, float* weights) {
          HeadView<T> visible_head = head;
          visible_head.rows = visible;
          for (std::int64_t i = 0; i < count; ++i) {
            own.queries[i] = weigh(weights + i * rows, blocks.visible_rows(h, first + i), visible);
          }
          auto o = map_matrix(own.outputs, count, dim);
          auto y = map_matrix(own.projected, count, outputs_dim);
          o.setZero();
          for_each_tile(visible_head, own.values, [&](std::int64_t start, const auto& tile) {
            o.noalias() += map_matrix(weights + start, count, tile.rows(), rows) * tile;
          });
          for (std::int64_t i = 0; i < count; ++i) {
            const DroppedQuery& query = own.queries[i];
            const std::int64_t q = blocks.head_of(h, first + i);
            if (query.dominant >= 0) {
              load_row(head, query.dominant, own.row);
              auto difference = map_matrix(own.row, 1, dim);
              difference -= o.row(i);
              if (projected) {
                y.row(i).noalias() = difference * transform_of(q).transpose();
              } else {
                y.row(i) = difference;
              }
              const double change = query.dominant_weight * wide_norm(y.row(i));
              own.squares[query.dominant] += change * change;
              o.row(i) += static_cast<float>(query.dominant_weight) * difference;
            }
            if (projected) {
              y.row(i).noalias() = o.row(i) * transform_of(q).transpose();
            } else {
              y.row(i) = o.row(i);
            }
          }
          for_each_tile(visible_head, own.values, [&](std::int64_t start, const auto& tile) {
            auto x = map_matrix(own.channels, outputs_dim, tile.rows(), tile_rows);
            if (!projected) x = tile.transpose();
            std::int64_t transformed_by = -1;
            for (std::int64_t i = 0; i < count; ++i) {
              const std::int64_t q = blocks.head_of(h, first + i);
              if (projected && q != transformed_by) {
                x.noalias() = transform_of(q) * tile.transpose();
                transformed_by = q;
              }
              add_changes(own.queries[i], weights + i * rows + start, own.channels,
                          own.projected + i * outputs_dim, outputs_dim, tile.rows(),
                          own.squares + start);
            }
          });
        });
    const double share = 1.0 / static_cast<double>(blocks.stacked());
    for (std::int64_t j = 0; j < rows; ++j) {
      out.head(h)[j] = static_cast<float>(std::sqrt(own.squares[j] * share));
    }
  });
}

}  // namespace kvevict::cpu
