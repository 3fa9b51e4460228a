// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kvevict/policies/capkv.hpp"
#include "kvevict/policies/expected_attention.hpp"
#include "kvevict/policies/h2o.hpp"
#include "kvevict/policies/jacap.hpp"
#include "kvevict/policies/keydiff.hpp"
#include "kvevict/policies/knorm.hpp"
#include "kvevict/policies/probe_attention.hpp"
#include "kvevict/policies/random.hpp"
#include "kvevict/policies/snapkv.hpp"
#include "kvevict/policies/streaming_llm.hpp"

namespace kvevict {

template <class... Ts>
struct TypeList {};

/// The list of all policies: what any_policy, the contract tests and the benchmarks go through. A
/// new policy is one more line above and one more name here.
using AllPolicies = TypeList<Jacap, CapKV, SnapKV, KeyDiff, KNorm, H2O, ExpectedAttention,
                             ProbeAttention, StreamingLLM, Random>;

}  // namespace kvevict
