// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/core/rows_view.hpp"
#include "kvevict/core/scores.hpp"
#include "kvevict/cpu/resources.hpp"
#include "kvevict/cpu/row_pieces.hpp"
#include "kvevict/cpu/tile.hpp"
#include "kvevict/ops/row_norms.hpp"

namespace kvevict::cpu {

template <class T>
void row_norms_impl(Resources& res, const RowsView<T>& rows, float scale, ScoreView<> scores) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t tile = tile_size(rows.dim());
  float* tiles = scope.carve<float>("row_norms.tiles", res.threads() * tile);
  if (res.workspace().counting()) return;
  for_each_piece(res, rows.layout(),
                 [&](std::int64_t h, std::int64_t begin, std::int64_t end, int worker) {
                   float* out = scores.head(h) + begin;
                   for_each_tile(rows.head(h), begin, end, tiles + worker * tile,
                                 [&](std::int64_t first, const auto& block) {
                                   for (Eigen::Index i = 0; i < block.rows(); ++i) {
                                     out[first + i] = scale * row_norm(block.row(i));
                                   }
                                 });
                 });
}

}  // namespace kvevict::cpu
