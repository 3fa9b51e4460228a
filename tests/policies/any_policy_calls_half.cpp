// SPDX-License-Identifier: Apache-2.0
#include "policies/any_policy_calls.hpp"

#include "kvevict/kvevict.hpp"
#include "support/backend.hpp"

KVEVICT_TEST_ANY_POLICY_CALLS(, kvevict::half)

namespace kvevict_test {

void observe(TestResources& res, kvevict::H2O::State& state,
             const kvevict::KvView<const kvevict::half>& cache,
             const kvevict::QueryWindow<>& window) {
  state.observe(res, cache, window);
}

}  // namespace kvevict_test
