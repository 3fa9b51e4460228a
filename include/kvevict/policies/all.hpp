// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/policies/capkv.hpp"
#include "kvevict/policies/compactor.hpp"
#include "kvevict/policies/curdkv.hpp"
#include "kvevict/policies/drop_loss.hpp"
#include "kvevict/policies/expected_attention.hpp"
#include "kvevict/policies/h2o.hpp"
#include "kvevict/policies/jacap.hpp"
#include "kvevict/policies/keydiff.hpp"
#include "kvevict/policies/knorm.hpp"
#include "kvevict/policies/kvzip.hpp"
#include "kvevict/policies/lagkv.hpp"
#include "kvevict/policies/leverage_score.hpp"
#include "kvevict/policies/noncausal_attention.hpp"
#include "kvevict/policies/probe_attention.hpp"
#include "kvevict/policies/qfilter.hpp"
#include "kvevict/policies/random.hpp"
#include "kvevict/policies/rkv.hpp"
#include "kvevict/policies/snapkv.hpp"
#include "kvevict/policies/streaming_llm.hpp"
#include "kvevict/policies/tova.hpp"

namespace kvevict {

template <class... Ts>
struct TypeList {};

/// The list of all policies: what any_policy, the contract tests and the benchmarks go through. A
/// new policy is one more line above and one more name here.
using AllPolicies =
    TypeList<Jacap, CapKV, SnapKV, KeyDiff, KNorm, H2O, ExpectedAttention, ProbeAttention, DropLoss,
             KVzip, TOVA, LagKV, QFilter, NonCausalAttention, LeverageScore, Compactor, CurDKV, RKV,
             StreamingLLM, Random>;

}  // namespace kvevict
