// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

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

inline void scale_norms_impl(Resources& res, const KeyNorms<>& norms, float scale,
                             ScoreView<> scores) {
  if (res.workspace().counting()) return;
  for (std::int64_t h = 0; h < scores.layout.heads(); ++h) {
    const float* from = norms.data + norms.layout.offset(h);
    float* to = scores.head(h);
    for (std::int64_t i = 0; i < scores.layout.rows(h); ++i) to[i] = scale * from[i];
  }
}

template <class T>
void append_row_norms_impl(Resources& res, const RowsView<T>& rows, const KeyNorms<>& known,
                           ScoreView<> norms) {
  WorkspaceScope scope(res.workspace());
  const std::int64_t tile = tile_size(rows.dim());
  float* tiles = scope.carve<float>("row_norms.tiles", res.threads() * tile);
  if (res.workspace().counting()) return;
  for_each_piece(
      res, rows.layout(), [&](std::int64_t h, std::int64_t begin, std::int64_t end, int worker) {
        float* out = norms.head(h);
        const std::int64_t first_new = std::clamp(known.layout.rows(h), begin, end);
        std::copy_n(known.data + known.layout.offset(h) + begin, first_new - begin, out + begin);
        for_each_tile(rows.head(h), first_new, end, tiles + worker * tile,
                      [&](std::int64_t first, const auto& block) {
                        for (Eigen::Index i = 0; i < block.rows(); ++i) {
                          out[first_new + first + i] = row_norm(block.row(i));
                        }
                      });
      });
}

}  // namespace kvevict::cpu
