// SPDX-License-Identifier: Apache-2.0
#pragma once

// Scoring and evicting by a policy that is chosen at run time: the whole call runs on the device,
// with the CUDA backend's own resources. Everything but these calls mirrors op by op.
#include "cuda/mirror/mirror_resources.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/evict.hpp"
#include "policies/test_policies.hpp"

#define KVEVICT_MIRROR_SCORES(T)                                                            \
  template <>                                                                               \
  void kvevict::score_rows(kvevict_test::MirrorResources&, const kvevict_test::TestPolicy&, \
                           const kvevict::KvView<const T>&, const kvevict::Evidence<>&,     \
                           kvevict::ScoreView<>);

#define KVEVICT_MIRROR_POLICIES(T)                                                           \
  KVEVICT_MIRROR_SCORES(T)                                                                   \
  template <>                                                                                \
  void kvevict::evict_into(kvevict_test::MirrorResources&, kvevict::Selection&,              \
                           const kvevict_test::TestPolicy&, const kvevict::KvView<const T>&, \
                           const kvevict::Evidence<>&, const kvevict::Budget&,               \
                           const kvevict::Protect&, const kvevict::UniformBudget&);          \
  template <>                                                                                \
  void kvevict::evict_into(kvevict_test::MirrorResources&, kvevict::Selection&,              \
                           const kvevict_test::TestPolicy&, const kvevict::KvView<const T>&, \
                           const kvevict::Evidence<>&, const kvevict::Budget&,               \
                           const kvevict::Protect&, const kvevict::GlobalBudget&);

KVEVICT_MIRROR_POLICIES(float)
KVEVICT_MIRROR_POLICIES(kvevict::half)
KVEVICT_MIRROR_POLICIES(kvevict::bfloat16)
KVEVICT_MIRROR_SCORES(kvevict::q8_0)
KVEVICT_MIRROR_SCORES(kvevict::float8_e4m3)

#undef KVEVICT_MIRROR_POLICIES
#undef KVEVICT_MIRROR_SCORES
