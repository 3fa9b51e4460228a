// SPDX-License-Identifier: Apache-2.0
#include "policies/any_policy_calls.hpp"

#include "kvevict/kvevict.hpp"
#include "support/backend.hpp"

KVEVICT_TEST_ANY_POLICY_SCORES(, kvevict::float8_e4m3)
