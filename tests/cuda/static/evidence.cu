// SPDX-License-Identifier: Apache-2.0
//
// Makes a compiler produce every kernel that turns queries and output projections into evidence:
// they do not depend on the element type of the cache. Never run.
#include "kvevict/cuda.cuh"

namespace {

constexpr kvevict::MemorySpace device = kvevict::MemorySpace::device;

template <class T>
void factor(kvevict::CudaResources& res, kvevict::MatrixView<const T, device> w_o) {
  kvevict::BasicProjectionFactors<device> factors(8, 64);
  factors.add_layer(res, w_o);
}

}  // namespace

void gather_evidence(kvevict::CudaResources& res, const kvevict::QueriesView<device>& queries,
                     const kvevict::Rope& rope, kvevict::Evidence<device>& evidence) {
  const kvevict::QueryStatsOptions options{.next_position = 100};
  const auto stats = kvevict::estimate_query_stats(res, queries, rope, options);
  kvevict::BasicRunningQueryStats<device> running(1, 64, rope, kvevict::Covariance::full);
  running.observe(res, queries);
  running.merge(res, running);
  const auto window = kvevict::window_query_stats(res, queries, kvevict::Covariance::full);
  const auto probes = kvevict::future_probes(res, queries, rope, {.next_position = 100});
  evidence.query_stats = stats.dim() > 64 ? stats.view() : window.view();
  evidence.probes = probes.view();
}

void factor_projections(kvevict::CudaResources& res, kvevict::MatrixView<const float, device> wide,
                        kvevict::MatrixView<const kvevict::half, device> half,
                        kvevict::MatrixView<const kvevict::bfloat16, device> bfloat16) {
  factor(res, wide);
  factor(res, half);
  factor(res, bfloat16);
}
