// SPDX-License-Identifier: Apache-2.0
#include "cuda/mirror/mirror_device.cuh"
#include "cuda/mirror/mirror_ops.hpp"
#include "kvevict/cuda/projected_norms.cuh"
#include "kvevict/cuda/score_combination.cuh"
#include "kvevict/cuda/score_marks.cuh"
#include "kvevict/cuda/streamed_rows.cuh"

namespace kvevict_test {

using namespace kvevict;

namespace {

/// Rows of candidates of this layout.
struct OfCandidates {
  const StreamedRows& rows;
  const RowLayout<>& layout;
};

StreamedRows on_device(Transfers& transfers, const OfCandidates& of) {
  StreamedRows rows = of.rows;
  rows.candidates = transfers.array(rows.candidates, of.layout.total());
  rows.kept = transfers.array(rows.kept, of.layout.heads() * rows.keep);
  return rows;
}

}  // namespace

void mark_best_impl(MirrorResources& res, ScoreView<> ranks, double part,
                    const kvevict::RowLayout<>& of, ScoreView<> marks) {
  KVEVICT_MIRROR(mark_best, ranks, part, of, marks);
}

void mark_protected_impl(MirrorResources& res, const Positions<>& positions, const Protect& protect,
                         ScoreView<> marks) {
  KVEVICT_MIRROR(mark_protected, OfRows(positions, marks.layout), protect, marks);
}

void mark_small_impl(MirrorResources& res, ScoreView<> norms, double threshold, ScoreView<> marks) {
  KVEVICT_MIRROR(mark_small, norms, threshold, marks);
}

void lift_marked_impl(MirrorResources& res, ScoreView<> marks, ScoreView<> scores) {
  KVEVICT_MIRROR(lift_marked, marks, scores);
}

void chunk_means_impl(MirrorResources& res, std::int64_t chunk, ScoreView<> scores) {
  KVEVICT_MIRROR(chunk_means, chunk, scores);
}

void scale_scores_impl(MirrorResources& res, float weight, ScoreView<> scores) {
  KVEVICT_MIRROR(scale_scores, weight, scores);
}

void combine_scores_impl(MirrorResources& res, ScoreView<> more, float weight,
                         Combination combination, ScoreView<> scores) {
  KVEVICT_MIRROR(combine_scores, more, weight, combination, scores);
}

void multiply_scores_impl(MirrorResources& res, ScoreView<> factors, double epsilon,
                          bool from_lowest, ScoreView<> scores) {
  KVEVICT_MIRROR(multiply_scores, factors, epsilon, from_lowest, scores);
}

void replace_heads_impl(MirrorResources& res, const std::uint8_t* chosen, ScoreView<> other,
                        ScoreView<> scores) {
  KVEVICT_MIRROR(replace_heads, chosen, other, scores);
}

void extend_candidates_impl(MirrorResources& res, const RowLayout<>& layout, std::int64_t carried,
                            std::int64_t next, const StreamedRows& rows) {
  KVEVICT_MIRROR(extend_candidates, layout, carried, next, (OfCandidates{rows, layout}));
}

void settle_candidates_impl(MirrorResources& res, ScoreView<> ranks, const SelectionView<>& chosen,
                            float dropped, const StreamedRows& rows, ScoreView<> scores) {
  KVEVICT_MIRROR(settle_candidates, ranks, chosen, dropped, (OfCandidates{rows, ranks.layout}),
                 scores);
}

template <class T>
void projected_norms_impl(MirrorResources& res, const RowsView<T>& rows,
                          const MatrixBatchView<const float>& transforms, std::int64_t group,
                          ProjectedNorm norm, ScoreView<> out) {
  KVEVICT_MIRROR(projected_norms, rows, transforms, group, norm, out);
}

#define KVEVICT_MIRROR_OPS(T)                                                           \
  template void projected_norms_impl(MirrorResources&, const RowsView<T>&,              \
                                     const MatrixBatchView<const float>&, std::int64_t, \
                                     ProjectedNorm, ScoreView<>);
KVEVICT_MIRROR_ELEMENTS(KVEVICT_MIRROR_OPS)
#undef KVEVICT_MIRROR_OPS

}  // namespace kvevict_test
