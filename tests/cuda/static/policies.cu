// SPDX-License-Identifier: Apache-2.0
//
// Makes a compiler produce every kernel that policies and compaction use on a cache of one element
// type, KVEVICT_TEST_ELEMENT. Never run.
#include <cstdint>

#include "kvevict/cuda.cuh"

namespace {

using Element = kvevict::KVEVICT_TEST_ELEMENT;
constexpr kvevict::MemorySpace device = kvevict::MemorySpace::device;

template <class... Ps>
void score_with_each(kvevict::TypeList<Ps...>, kvevict::CudaResources& res,
                     const kvevict::KvView<Element, device>& cache,
                     const kvevict::Evidence<device>& evidence, kvevict::ScoreView<device> scores) {
  (kvevict::score_rows(res, Ps{}, cache, evidence, scores), ...);
}

}  // namespace

std::int64_t evict_with_all(kvevict::CudaResources& res,
                            const kvevict::KvView<Element, device>& cache,
                            const kvevict::KvView<Element, device>& smaller,
                            const kvevict::Evidence<device>& evidence,
                            kvevict::ScoreView<device> scores, const kvevict::Budget& budget) {
  score_with_each(kvevict::AllPolicies{}, res, cache, evidence, scores);
  kvevict::CudaSelection kept;
  std::int64_t bytes = 0;
  for (const kvevict::AnyPolicy& policy : kvevict::AnyPolicy::all()) {
    const kvevict::GlobalBudget global{.allow_incomparable = true};
    kvevict::evict_into(res, kept, policy, cache, evidence, budget);
    kvevict::evict_into(res, kept, policy, cache, evidence, budget, {.recent = 1}, global);
    bytes += kvevict::workspace_bytes(res, policy, cache, evidence, budget, {}, global);
    kvevict::compact_into(res, kept, cache, smaller);
    kvevict::compact(res, kept, cache);
  }
  return bytes + res.report().nan_scores;
}

void observe_mass(kvevict::CudaResources& res, const kvevict::KvView<Element, device>& cache,
                  const kvevict::QueryWindow<device>& window, const kvevict::CudaSelection& kept) {
  kvevict::H2O::BasicState<device> state(kvevict::H2O::published());
  state.observe(res, cache, window);
  state.compact(res, kept);
}
