// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kvevict/cuda/score_tiles.cuh"
#include "kvevict/cuda/upload.cuh"
#include "kvevict/math/lifted_score.hpp"
#include "kvevict/ops/streamed_rows.hpp"

namespace kvevict::cuda {

namespace detail {

struct ExtendCandidates {
  RowLayout<MemorySpace::device> layout;
  std::int64_t carried;
  std::int64_t next;
  StreamedRows rows;

  __device__ void operator()(const HeadTile& tile) const {
    std::int32_t* candidates = rows.candidates + layout.offset(tile.head);
    const std::int32_t* kept = rows.kept + tile.head * rows.keep;
    for_rows_of(tile, [&](std::int64_t j) {
      candidates[j] = j < carried ? kept[j] : static_cast<std::int32_t>(next + j - carried);
    });
  }
};

struct SettleCandidates {
  ScoreView<MemorySpace::device> ranks;
  SelectionView<MemorySpace::device> chosen;
  float dropped;
  StreamedRows rows;
  ScoreView<MemorySpace::device> scores;

  __device__ void operator()(const HeadTile& tile) const {
    const std::int64_t count = ranks.layout.rows(tile.head);
    const std::int64_t best = chosen.count(tile.head);
    const std::int32_t* candidates = rows.candidates + ranks.layout.offset(tile.head);
    const std::int32_t* indices = chosen.head(tile.head);
    std::int32_t* kept = rows.kept + tile.head * rows.keep;
    const float* rank = ranks.head(tile.head);
    float* out = scores.head(tile.head);
    for_rows_of(tile, [&](std::int64_t j) {
      if (j < best) kept[j] = candidates[indices[j]];
      out[candidates[j]] = is_among_best(rank[j], best, count) ? rank[j] : dropped;
    });
  }
};

}  // namespace detail

inline void upload_offsets_impl(Resources& res, const std::int64_t* from, std::int64_t count,
                                std::int64_t* to) {
  upload(res.stream(), from, count, to);
}

inline void extend_candidates_impl(Resources& res, const RowLayout<MemorySpace::device>& layout,
                                   std::int64_t carried, std::int64_t next,
                                   const StreamedRows& rows) {
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "extend_candidates", layout,
                      detail::ExtendCandidates{layout, carried, next, rows});
}

inline void settle_candidates_impl(Resources& res, ScoreView<MemorySpace::device> ranks,
                                   const SelectionView<MemorySpace::device>& chosen, float dropped,
                                   const StreamedRows& rows,
                                   ScoreView<MemorySpace::device> scores) {
  if (res.workspace().counting()) return;
  for_each_score_tile(res, "settle_candidates", ranks.layout,
                      detail::SettleCandidates{ranks, chosen, dropped, rows, scores});
}

}  // namespace kvevict::cuda
