// SPDX-License-Identifier: Apache-2.0
#include "policies/any_policy_calls.hpp"

#include "kvevict/kvevict.hpp"

KVEVICT_TEST_ANY_POLICY_CALLS(, kvevict::bfloat16)
