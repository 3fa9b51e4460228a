// SPDX-License-Identifier: Apache-2.0
//
// Makes a compiler produce every kernel of the library: all policies of the list, decorators,
// allocators, forms of selections, merging, compaction, statistics of queries, probes, factors of
// projections and H2O's state, for each element type; all policies and compaction for a quantised
// type of each kind. Never run.
#include <cstdint>

#include "kvevict/cuda.cuh"

namespace {

constexpr kvevict::MemorySpace device = kvevict::MemorySpace::device;

/// What the policies get; what it refers to is of no interest.
template <class T>
struct Inputs {
  kvevict::KvView<T, device> cache;
  kvevict::KvView<T, device> smaller;
  kvevict::Evidence<device> evidence;
  kvevict::ScoreView<device> scores;
  kvevict::MatrixView<const T, device> projection;
  kvevict::Rope rope;
};

template <class T, class... Ps>
void score_with_each(kvevict::CudaResources& res, const Inputs<T>& in, kvevict::TypeList<Ps...>) {
  (kvevict::score_rows(res, Ps{}, in.cache, in.evidence, in.scores), ...);
}

template <class T>
void evict_with_any(kvevict::CudaResources& res, const Inputs<T>& in) {
  const kvevict::GlobalBudget global{.allow_incomparable = true};
  const kvevict::Budget budget = kvevict::Budget::evict_ratio(0.5);
  kvevict::CudaSelection kept;
  for (const kvevict::AnyPolicy& policy : kvevict::AnyPolicy::all()) {
    kvevict::evict_into(res, kept, policy, in.cache, in.evidence, budget);
    kvevict::evict_into(res, kept, policy, in.cache, in.evidence, budget, {.recent = 1}, global);
    kvevict::workspace_bytes(res, policy, in.cache, in.evidence, budget, {}, global);
  }
  kvevict::merge_evicted(res, kept, in.cache);
  kvevict::merge_following(res, kept, in.cache, in.scores);
  kvevict::compact_into(res, kept, in.cache, in.smaller);
  kvevict::compact(res, kept, in.cache);
  kvevict::rerotate_keys(res, in.cache.keys(), kvevict::Positions<device>(),
                         kvevict::Positions<device>::consecutive(1), kvevict::Rope{});
  kept.download(res.stream());
}

template <class T, class... Allocators>
void divide_with_each(kvevict::CudaResources& res, const Inputs<T>& in,
                      const Allocators&... allocators) {
  kvevict::CudaSelection kept;
  (kvevict::evict_into(res, kept, kvevict::KNorm{}, in.cache, in.evidence,
                       kvevict::Budget::evict_ratio(0.5), {}, allocators),
   ...);
  kvevict::fill_to_uniform_counts(res, kept, kept, in.scores, in.cache, {}, 2);
  kvevict::evict_same_rows_into(res, kept, kvevict::KNorm{}, in.cache, in.evidence, 2,
                                kvevict::GroupReduction::sum, kvevict::Budget::evict_ratio(0.5));
}

template <class T>
void decorate(kvevict::CudaResources& res, const Inputs<T>& in) {
  using kvevict::KNorm;
  using Decorated = kvevict::TypeList<kvevict::ChunkWise<KNorm>, kvevict::ValueWeighted<KNorm>,
                                      kvevict::Blend<KNorm, KNorm>, kvevict::PerLayer<KNorm, KNorm>,
                                      kvevict::SpanProtection<KNorm>, kvevict::SinkDetection<KNorm>,
                                      kvevict::BlockStreaming<KNorm>>;
  score_with_each(res, in, Decorated{});
  kvevict::CudaSelection kept;
  kvevict::evict_into(res, kept, kvevict::CriticalKV<KNorm>{}, in.cache, in.evidence,
                      kvevict::Budget::evict_ratio(0.5), {}, kvevict::AdaptiveBudget{});
  divide_with_each(res, in, kvevict::AdaptiveBudget{}, kvevict::MassBudget{},
                   kvevict::PyramidBudget{}, kvevict::SpreadBudget{}, kvevict::TableBudget{});
}

template <class T>
void keep_state(kvevict::CudaResources& res, const Inputs<T>& in) {
  kvevict::H2O::BasicState<device> state(kvevict::H2O::published());
  state.observe(res, in.cache, *in.evidence.query_window);
  state.compact(res, kvevict::CudaSelection());
  kvevict::BasicProjectionFactors<device> factors(8, 64);
  factors.add_layer(res, in.projection);
}

template <class T>
void use_everything(kvevict::CudaResources& res) {
  const Inputs<T> inputs;
  score_with_each(res, inputs, kvevict::AllPolicies{});
  evict_with_any(res, inputs);
  decorate(res, inputs);
  keep_state(res, inputs);
}

template <class T>
void use_quantised(kvevict::CudaResources& res) {
  const Inputs<T> inputs;
  const kvevict::CudaSelection kept;
  score_with_each(res, inputs, kvevict::AllPolicies{});
  kvevict::compact_into(res, kept, inputs.cache, inputs.smaller);
  kvevict::compact(res, kept, inputs.cache);
}

void gather_evidence(kvevict::CudaResources& res) {
  const kvevict::QueriesView<device> queries;
  const kvevict::Rope rope;
  kvevict::estimate_query_stats(res, queries, rope, {.next_position = 100});
  kvevict::window_query_stats(res, queries, kvevict::Covariance::full);
  kvevict::BasicRunningQueryStats<device> running(1, 64, rope, kvevict::Covariance::full);
  running.merge(res, running);
  kvevict::future_probes(res, queries, rope, {.next_position = 100});
}

}  // namespace

void use_everything_on_a_device(kvevict::CudaResources& res) {
  use_everything<float>(res);
  use_everything<kvevict::half>(res);
  use_everything<kvevict::bfloat16>(res);
  use_quantised<kvevict::q8_0>(res);
  use_quantised<kvevict::float8_e4m3>(res);
  gather_evidence(res);
  res.report();
}
