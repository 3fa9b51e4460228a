// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "golden/golden_checks.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "policies/any_policy_calls.hpp"
#include "support/backend.hpp"

namespace kept_test {

using namespace kvevict_test;

namespace {

template <class T>
kvevict::Selection kept(TestResources& res, const TestPolicy& policy,
                        const kvevict::KvView<const T>& cache, const kvevict::Evidence<>& evidence,
                        const GoldenEntry& entry) {
  const kvevict::Budget budget = golden_budget(entry);
  const kvevict::Protect protect = golden_protection(entry);
  if (required(entry.selection, "budget") == "global") {
    return kvevict::evict(res, policy, cache, evidence, budget, protect, kvevict::GlobalBudget{});
  }
  return kvevict::evict(res, policy, cache, evidence, budget, protect);
}

}  // namespace

TEST_CASE("golden: every stored kept set of a policy is reproduced exactly", "[golden]") {
  TestResources res({.threads = 2});
  std::size_t count = 0;
  for (const GoldenEntry& entry : golden_data().entries("kept")) {
    if (!is_of_policy(entry)) continue;
    if (!case_runs(++count)) continue;
    INFO(entry.id);
    GoldenCase& given = golden_case(entry);
    const TestPolicy policy = golden_policy(entry);
    const std::vector<std::vector<std::int32_t>> want = kept_rows(golden_data(), entry);
    const bool global = required(entry.selection, "budget") == "global";
    CHECK(rows_of(kept(res, policy, given.cache(), given.evidence(entry), entry)) == want);
    CHECK(rows_of(kept(res, policy, given.half_cache(), given.evidence(entry), entry)) == want);
    CHECK(golden_budget(entry).kept_rows(GoldenCase::rows) * (global ? GoldenCase::kv_heads : 1) ==
          required_integer(entry.selection, "rows"));
  }
  CHECK(count == 194);
}

}  // namespace kept_test
