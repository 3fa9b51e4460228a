// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ops of MirrorResources, as the fronts in kvevict/ops find them. Templates are instantiated in
// the library for the element types, read-only and writable.
#include <cstdint>

#include "cuda/mirror/mirror_resources.hpp"
#include "kvevict/core/concepts.hpp"
#include "kvevict/math/mean_rotation.hpp"
#include "kvevict/ops/attention_statistic.hpp"
#include "kvevict/ops/capacity.hpp"
#include "kvevict/ops/centred_leverage.hpp"
#include "kvevict/ops/chunk_attention.hpp"
#include "kvevict/ops/drop_loss.hpp"
#include "kvevict/ops/global_heads.hpp"
#include "kvevict/ops/group_reduction.hpp"
#include "kvevict/ops/lag_scores.hpp"
#include "kvevict/ops/merge_rows.hpp"
#include "kvevict/ops/pooling.hpp"
#include "kvevict/ops/projected_norms.hpp"
#include "kvevict/ops/query_logits.hpp"
#include "kvevict/ops/query_moments.hpp"
#include "kvevict/ops/rerotate_keys.hpp"
#include "kvevict/ops/row_weighting.hpp"
#include "kvevict/ops/running_mass.hpp"
#include "kvevict/ops/score_combination.hpp"
#include "kvevict/ops/score_marks.hpp"
#include "kvevict/ops/score_order.hpp"
#include "kvevict/ops/score_spread.hpp"
#include "kvevict/ops/shared_scores.hpp"
#include "kvevict/ops/softmax.hpp"
#include "kvevict/ops/streamed_rows.hpp"

namespace kvevict_test {

using HostMoments = kvevict::QueryMoments<kvevict::MemorySpace::host, const double>;

// Over rows.
template <class T>
void row_norms_impl(MirrorResources& res, const kvevict::RowsView<T>& rows, float scale,
                    kvevict::ScoreView<> scores);
template <class T>
void mean_direction_impl(MirrorResources& res, const kvevict::RowsView<T>& rows,
                         kvevict::MatrixView<float> direction);
template <class T>
void cosine_impl(MirrorResources& res, const kvevict::RowsView<T>& rows,
                 kvevict::MatrixView<const float> directions, std::int64_t group, float scale,
                 kvevict::ScoreView<> scores);
template <class T>
void query_logits_impl(MirrorResources& res, const kvevict::RowsView<T>& rows,
                       kvevict::MatrixView<const float> vectors, std::int64_t group, float scale,
                       kvevict::ScoreView<> logits);
template <class T>
void quadratic_form_impl(MirrorResources& res, const kvevict::RowsView<T>& rows,
                         const kvevict::QueryStatsView<>& stats, kvevict::Covariance covariance,
                         std::int64_t group, float scale, bool add, kvevict::ScoreView<> out);
template <class T>
void weight_by_norm_impl(MirrorResources& res, const kvevict::RowsView<T>& rows,
                         kvevict::MatrixBatchView<const float> transforms, std::int64_t group,
                         kvevict::Epsilon epsilon, kvevict::ReductionDomain domain,
                         kvevict::ScoreView<> scores);
template <class T>
void projected_norms_impl(MirrorResources& res, const kvevict::RowsView<T>& rows,
                          const kvevict::MatrixBatchView<const float>& transforms,
                          std::int64_t group, kvevict::ProjectedNorm norm,
                          kvevict::ScoreView<> out);
template <class T>
void attention_statistic_impl(MirrorResources& res, const kvevict::RowsView<T>& keys,
                              const kvevict::Positions<>& positions,
                              const kvevict::ProbeQueries<>& probes, std::int64_t group,
                              float scale, kvevict::AttentionStatistic statistic, float decay,
                              kvevict::ScoreView<> out);
template <class T>
void drop_loss_impl(MirrorResources& res, const kvevict::RowsView<T>& keys,
                    const kvevict::RowsView<T>& values, const kvevict::Positions<>& positions,
                    const kvevict::ProbeQueries<>& probes, std::int64_t group, float scale,
                    const kvevict::MatrixBatchView<const float>& transforms,
                    kvevict::ScoreView<> out);

template <class T>
void lag_deviation_impl(MirrorResources& res, const kvevict::RowsView<T>& rows,
                        const kvevict::LagPartitions& partitions, kvevict::ScoreView<> out);

template <class T>
void chunk_attention_impl(MirrorResources& res, const kvevict::RowsView<T>& keys,
                          const kvevict::Positions<>& positions,
                          const kvevict::QueryWindow<>& window, std::int64_t group,
                          const kvevict::RowRange& range, std::int64_t chunk,
                          kvevict::ChunkPadding padding, float scale, kvevict::ScoreView<> out);
template <class T>
void mean_similarity_impl(MirrorResources& res, const kvevict::RowsView<T>& rows, float threshold,
                          kvevict::ScoreView<> out);

// Capacity.
template <class T>
void weighted_gram_impl(MirrorResources& res, const kvevict::RowsView<T>& values,
                        kvevict::ScoreView<> root_weights, std::int64_t group,
                        kvevict::MatrixBatchView<double> gram);
void inverse_factor_impl(MirrorResources& res, kvevict::MatrixBatchView<const double> gram,
                         kvevict::MatrixBatchView<const float> transforms, kvevict::Noise noise,
                         kvevict::MatrixBatchView<float> factors);
template <class T>
void leverage_scores_impl(MirrorResources& res, const kvevict::RowsView<T>& values,
                          kvevict::MatrixBatchView<const float> factors, std::int64_t group,
                          kvevict::ScoreView<> root_weights, kvevict::ScoreView<> scores);
template <class T>
void capacity_scores_impl(MirrorResources& res, const kvevict::RowsView<T>& values,
                          kvevict::ScoreView<> gram_roots,
                          kvevict::MatrixBatchView<const float> transforms, kvevict::Noise noise,
                          std::int64_t group, kvevict::ScoreView<> leverage_roots,
                          kvevict::ScoreView<> scores);
template <class T>
void centred_leverage_impl(MirrorResources& res, const kvevict::RowsView<T>& rows,
                           kvevict::MatrixBatchView<const float> transforms,
                           const kvevict::RowRange& range, kvevict::Noise noise,
                           kvevict::ScoreView<> scores);
void gaussian_sketch_impl(MirrorResources& res, std::uint64_t seed, std::int64_t width,
                          kvevict::MatrixView<float> sketch);
template <class T>
void projection_factors_impl(MirrorResources& res, kvevict::MatrixView<T> w_o,
                             kvevict::MatrixBatchView<float> factors);
void stack_factors_impl(MirrorResources& res, kvevict::MatrixBatchView<const float> factors,
                        std::int64_t group, kvevict::MatrixBatchView<float> out);

// Over scores.
void softmax_impl(MirrorResources& res, kvevict::ScoreView<> scores, std::int64_t skip_first,
                  kvevict::SoftmaxOutput output);
void reduce_group_impl(MirrorResources& res, kvevict::ScoreView<> in, std::int64_t group,
                       kvevict::GroupReduction reduction, kvevict::ReductionDomain domain,
                       kvevict::ScoreView<> out);
void pool_rows_impl(MirrorResources& res, const kvevict::Positions<>& positions,
                    const kvevict::RowLayout<>& layout, const kvevict::PositionBound<>& prefix,
                    std::int64_t kernel, kvevict::Pooling pooling, bool count_padding,
                    kvevict::ScoreView<> scores);
void raise_rows_impl(MirrorResources& res, const kvevict::Positions<>& positions,
                     const kvevict::RaisedRows<>& raised, kvevict::ScoreView<> scores);
void exponential_root_weights_impl(MirrorResources& res, kvevict::ScoreView<> z, float scale,
                                   float offset, std::int64_t skip_first, kvevict::ScoreView<> out);
void multiply_by_root_impl(MirrorResources& res, kvevict::ScoreView<> quadratic,
                           kvevict::ScoreView<> jacobian);
void random_scores_impl(MirrorResources& res, const kvevict::Positions<>& positions,
                        std::uint64_t seed, kvevict::ScoreView<> scores);
void recency_scores_impl(MirrorResources& res, const kvevict::Positions<>& positions,
                         std::int64_t sinks, kvevict::ScoreView<> scores);
void mark_best_impl(MirrorResources& res, kvevict::ScoreView<> ranks, double part,
                    const kvevict::RowLayout<>& of, kvevict::ScoreView<> marks);
void mark_protected_impl(MirrorResources& res, const kvevict::Positions<>& positions,
                         const kvevict::Protect& protect, kvevict::ScoreView<> marks);
void mark_small_impl(MirrorResources& res, kvevict::ScoreView<> norms, double threshold,
                     kvevict::ScoreView<> marks);
void lift_marked_impl(MirrorResources& res, kvevict::ScoreView<> marks,
                      kvevict::ScoreView<> scores);
void chunk_means_impl(MirrorResources& res, std::int64_t chunk, kvevict::ScoreView<> scores);
void scale_scores_impl(MirrorResources& res, float weight, kvevict::ScoreView<> scores);
void combine_scores_impl(MirrorResources& res, kvevict::ScoreView<> more, float weight,
                         kvevict::Combination combination, kvevict::ScoreView<> scores);
void multiply_scores_impl(MirrorResources& res, kvevict::ScoreView<> factors, double epsilon,
                          bool from_lowest, kvevict::ScoreView<> scores);
void replace_heads_impl(MirrorResources& res, const std::uint8_t* chosen,
                        kvevict::ScoreView<> other, kvevict::ScoreView<> scores);
void extend_candidates_impl(MirrorResources& res, const kvevict::RowLayout<>& layout,
                            std::int64_t carried, std::int64_t next,
                            const kvevict::StreamedRows& rows);
void settle_candidates_impl(MirrorResources& res, kvevict::ScoreView<> ranks,
                            const kvevict::SelectionView<>& chosen, float dropped,
                            const kvevict::StreamedRows& rows, kvevict::ScoreView<> scores);
void share_scores_impl(MirrorResources& res, kvevict::ScoreView<> scores, std::int64_t group,
                       kvevict::GroupReduction reduction);
void rank_scores_impl(MirrorResources& res, kvevict::ScoreView<> scores, kvevict::ScoreView<> out);
void remaining_mass_impl(MirrorResources& res, kvevict::ScoreView<> scores,
                         const kvevict::Positions<>& positions, const kvevict::Protect& protect,
                         kvevict::ScoreView<> out);
void effective_rows_impl(MirrorResources& res, kvevict::ScoreView<> scores, kvevict::Spread spread,
                         double* out);
void window_shares_impl(MirrorResources& res, kvevict::ScoreView<> scores, std::int64_t window,
                        kvevict::ReductionDomain domain);
void standardise_impl(MirrorResources& res, const kvevict::RowRange& range,
                      kvevict::ScoreView<> scores);
void lag_scores_impl(MirrorResources& res, kvevict::ScoreView<> keys, kvevict::ScoreView<> values,
                     const kvevict::LagPartitions& partitions, bool ranks,
                     kvevict::ScoreView<> scores);
void scale_norms_impl(MirrorResources& res, const kvevict::KeyNorms<>& norms, float scale,
                      kvevict::ScoreView<> scores);
void copy_mass_impl(MirrorResources& res, const kvevict::AttentionMass<>& mass,
                    kvevict::ScoreView<> scores);
void copy_leading_mass_impl(MirrorResources& res, const kvevict::AttentionMass<>& mass,
                            kvevict::ScoreView<> scores);

// Selection and what follows it.
void protected_counts_impl(MirrorResources& res, const kvevict::Positions<>& positions,
                           const kvevict::Protect& protect, const kvevict::RowLayout<>& layout,
                           std::int64_t* held);
void select_top_impl(MirrorResources& res, kvevict::ScoreView<> scores,
                     const kvevict::Positions<>& positions, const kvevict::Protect& protect,
                     const kvevict::RowLayout<>& kept, std::int32_t* indices);
void global_counts_impl(MirrorResources& res, const kvevict::AllocationInput<>& input,
                        const kvevict::ThresholdGroups& groups, std::int64_t* counts);
template <class T>
void gather_rows_impl(MirrorResources& res, kvevict::SelectionView<> selection,
                      const kvevict::RowsView<const T>& from, const kvevict::RowsView<T>& to);
template <class T>
void compact_rows_impl(MirrorResources& res, kvevict::SelectionView<> selection,
                       const kvevict::RowsView<T>& rows);
template <class T>
void merge_rows_impl(MirrorResources& res, kvevict::SelectionView<> kept,
                     const kvevict::RowsView<const T>& keys, const kvevict::RowsView<T>& values,
                     const kvevict::MergeOptions& options);
template <class T>
void merge_following_rows_impl(MirrorResources& res, kvevict::SelectionView<> kept,
                               const kvevict::Positions<>& positions,
                               kvevict::ScoreView<> attention, const kvevict::RowsView<T>& values,
                               const kvevict::FollowingMergeOptions& options);
template <class T>
void rerotate_keys_impl(MirrorResources& res, const kvevict::RowsView<T>& keys,
                        const kvevict::Positions<>& from, const kvevict::Positions<>& to,
                        const kvevict::Rope& rope);
void gather_positions_impl(MirrorResources& res, kvevict::SelectionView<> selection,
                           const kvevict::Positions<>& from,
                           const kvevict::RowLayout<>& from_layout,
                           const kvevict::MutablePositions<>& to,
                           const kvevict::RowLayout<>& to_layout);

// Queries and attention mass.
void accumulate_query_moments_impl(MirrorResources& res, const kvevict::QueriesView<>& queries,
                                   std::int64_t first, const kvevict::Rope& rope,
                                   kvevict::Covariance covariance, double weight, double kept_share,
                                   const kvevict::QueryMoments<>& moments);
void merge_query_moments_impl(MirrorResources& res, const HostMoments& other,
                              std::int64_t other_count, const kvevict::Rope& rope,
                              kvevict::Covariance covariance, std::int64_t count,
                              const kvevict::QueryMoments<>& moments);
void finish_query_stats_impl(MirrorResources& res, const HostMoments& moments, double weight,
                             const kvevict::Rope& rope, const kvevict::MeanRotation& rotation,
                             kvevict::Covariance covariance, kvevict::MatrixView<float> mean,
                             kvevict::MatrixView<float> second);
void rotate_queries_impl(MirrorResources& res, const kvevict::QueriesView<>& queries,
                         const std::int32_t* rows, const std::int32_t* positions,
                         std::int64_t count, const kvevict::Rope& rope,
                         kvevict::MatrixBatchView<float> to);
void accumulate_mass_impl(MirrorResources& res, const kvevict::RunningMass<>& before,
                          const kvevict::MassStep<>& step, const kvevict::RunningMass<>& after);
void gather_mass_impl(MirrorResources& res, const kvevict::SelectionView<>& kept,
                      const kvevict::RunningMass<>& from, const kvevict::RunningMass<>& to);

}  // namespace kvevict_test
