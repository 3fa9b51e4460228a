// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "golden/golden_checks.hpp"
#include "policies/any_policy_calls.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;

TEST_CASE("golden: every stored kept set of a policy is reproduced exactly", "[golden]") {
  TestResources res({.threads = 2});
  std::size_t count = 0;
  for (const GoldenEntry& entry : golden_data().entries("kept")) {
    if (entry.policy == "ProbeAttention") continue;  // not a policy: see probe_attention_test.cpp
    INFO(entry.id);
    GoldenCase& given = golden_case(entry);
    const kvevict::AnyPolicy policy = golden_policy(entry);
    const std::vector<std::vector<std::int32_t>> want = kept_rows(golden_data(), entry);
    CHECK(rows_of(kvevict::evict(res, policy, given.cache(), given.evidence(entry),
                                 golden_budget(entry), golden_protection(entry))) == want);
    CHECK(rows_of(kvevict::evict(res, policy, given.half_cache(), given.evidence(entry),
                                 golden_budget(entry), golden_protection(entry))) == want);
    CHECK(golden_budget(entry).kept_rows(GoldenCase::rows) ==
          required_integer(entry.selection, "rows"));
    ++count;
  }
  CHECK(count == 130);
}
