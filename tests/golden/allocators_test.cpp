// SPDX-License-Identifier: Apache-2.0
// Kept sets of a policy under an allocator.
#include <vector>

#include "catch.hpp"
#include "golden/golden_checks.hpp"
#include "kvevict/allocators/adaptive.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "policies/any_policy_calls.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;

TEST_CASE("golden: every stored kept set of AdaKV is reproduced exactly", "[golden]") {
  std::size_t count = 0;
  for (const GoldenEntry& entry : golden_data().entries("composed")) {
    if (required(entry.selection, "budget") != "adaptive") continue;
    INFO(entry.id);
    GoldenCase& given = golden_case(entry);
    const kvevict::KvView<const float> cache = given.cache();
    TestResources res({.threads = 2});
    std::vector<float> memory(static_cast<std::size_t>(cache.layout().total()));
    const kvevict::ScoreView<> scores{memory.data(), cache.layout()};
    kvevict::score_rows(res, golden_policy(entry), cache, given.evidence(entry), scores);
    kvevict::Selection kept;
    kvevict::select_rows(
        res, kept, scores, cache, false, golden_budget(entry), golden_protection(entry),
        kvevict::AdaptiveBudget{.safeguard = required_number(entry.selection, "safeguard"),
                                .allow_incomparable = true});
    CHECK(rows_of(kept) == kept_rows(golden_data(), entry));
    ++count;
  }
  CHECK(count == 20);
}
