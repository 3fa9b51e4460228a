// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kvevict/core/evidence.hpp"
#include "kvevict/core/parameter.hpp"
#include "kvevict/core/positions.hpp"
#include "kvevict/core/row_range.hpp"
#include "kvevict/ops/checks.hpp"

namespace kvevict {

/// What becomes of a last chunk that is shorter than the others.
enum class ChunkPadding {
  none,  ///< it is a chunk of its own length
  zeros  ///< zero keys and queries fill it up and take part: its softmaxes have as many logits of 0
         ///< more, and each of its rows receives missing / chunk from the queries (kvpress)
};

inline std::span<const EnumName<ChunkPadding>> enum_names(ChunkPadding) {
  static constexpr EnumName<ChunkPadding> names[] = {{ChunkPadding::none, "none"},
                                                     {ChunkPadding::zeros, "zeros"}};
  return names;
}

/// out[q][j] = sum over the queries i of row j's chunk of softmax_j(queries[q][i] . keys[q /
/// group][j] * scale), the softmax over all rows of the chunk: attention in both directions, within
/// chunks. A chunk are `chunk` rows by row order from the first of the range on, the last one may
/// be shorter. A query belongs to the last chunk that begins at its position or below; one in front
/// of the range, or at or behind a row that is skipped at its end, belongs to none. Rows outside
/// the range and rows of chunks without queries get 0. Positions of queries ascend. 2 chunk dim
/// flops and chunk exponentials for each query; no N x N buffer: at most a block of queries over
/// one chunk at a time.
template <class R, class T>
void chunk_attention(R& res, const RowsView<T, R::space>& keys,
                     const Positions<R::space>& positions, const QueryWindow<R::space>& window,
                     const RowRange& range, std::int64_t chunk, ChunkPadding padding, float scale,
                     ScoreView<R::space> out) {
  require(chunk >= 1, "chunk", chunk, ">=", 1);
  require_valid(range);
  detail::require_dim(window.queries.dim(), keys.dim(), "query_window.dim");
  const std::int64_t group =
      detail::require_group(window.queries.heads(), keys.heads(), "query_window.heads");
  require(window.positions.given(), "query_window.positions", "missing",
          "given to tell the chunk of each query");
  require(window.queries.count() >= 1, "query_window.count", window.queries.count(), ">=", 1);
  detail::require_scores(out, keys.layout(), group, "out");
  chunk_attention_impl(res, keys, positions, window, group, range, chunk, padding, scale, out);
}

}  // namespace kvevict
