// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/allocators/global.hpp"
#include "kvevict/evict.hpp"
#include "policies/test_policies.hpp"
#include "support/backend.hpp"

// The library's calls with a policy chosen at run time instantiate every policy, which takes a
// compiler far longer than any test. They are compiled once for each element type, in
// any_policy_calls_*.cpp; a test that includes this header and links kvevict_policy_calls only
// parses them. All of evict, workspace_bytes and score_rows goes through these. The attention of
// probes comes along. Of quantised types it is scores alone, for one of each kind.
#if defined(KVEVICT_TEST_MIRROR)
#include "cuda/mirror/mirror_policies.hpp"
#define KVEVICT_TEST_ANY_POLICY_SCORES(prefix, T)
#define KVEVICT_TEST_ANY_POLICY_CALLS(prefix, T)
#else
#define KVEVICT_TEST_ANY_POLICY_SCORES(prefix, T)                                               \
  prefix template void kvevict::score_rows(                                                     \
      kvevict::CpuResources&, const kvevict_test::TestPolicy&, const kvevict::KvView<const T>&, \
      const kvevict::Evidence<>&, kvevict::ScoreView<>);
#define KVEVICT_TEST_ANY_POLICY_CALLS(prefix, T)                                                \
  KVEVICT_TEST_ANY_POLICY_SCORES(prefix, T)                                                     \
  prefix template void kvevict::evict_into(                                                     \
      kvevict::CpuResources&, kvevict::Selection&, const kvevict_test::TestPolicy&,             \
      const kvevict::KvView<const T>&, const kvevict::Evidence<>&, const kvevict::Budget&,      \
      const kvevict::Protect&, const kvevict::UniformBudget&);                                  \
  prefix template void kvevict::evict_into(                                                     \
      kvevict::CpuResources&, kvevict::Selection&, const kvevict_test::TestPolicy&,             \
      const kvevict::KvView<const T>&, const kvevict::Evidence<>&, const kvevict::Budget&,      \
      const kvevict::Protect&, const kvevict::GlobalBudget&);                                   \
  prefix template void kvevict::attention_statistic(                                            \
      kvevict::CpuResources&, const kvevict::RowsView<const T>&, const kvevict::Positions<>&,   \
      const kvevict::ProbeQueries<>&, float, kvevict::AttentionStatistic, kvevict::ScoreView<>, \
      float);
#endif

KVEVICT_TEST_ANY_POLICY_CALLS(extern, float)
KVEVICT_TEST_ANY_POLICY_CALLS(extern, kvevict::half)
KVEVICT_TEST_ANY_POLICY_CALLS(extern, kvevict::bfloat16)
KVEVICT_TEST_ANY_POLICY_SCORES(extern, kvevict::q8_0)
KVEVICT_TEST_ANY_POLICY_SCORES(extern, kvevict::float8_e4m3)

namespace kvevict_test {

// state.observe(res, cache, window); a member function of a class is inline, so that only a
// function of our own keeps its instantiation out of the tests.
void observe(TestResources& res, kvevict::H2O::State& state,
             const kvevict::KvView<const float>& cache, const kvevict::QueryWindow<>& window);
void observe(TestResources& res, kvevict::H2O::State& state,
             const kvevict::KvView<const kvevict::half>& cache,
             const kvevict::QueryWindow<>& window);

}  // namespace kvevict_test
