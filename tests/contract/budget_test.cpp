// SPDX-License-Identifier: Apache-2.0
// Exactly as many rows as the budget says, whatever the policy.
#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "catch.hpp"
#include "contract/contract_case.hpp"
#include "contract/policy_variants.hpp"
#include "reference/random_inputs.hpp"
#include "reference/selection.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::Budget;
using kvevict::Selection;

namespace {

// Counts, order and range of a selection from rows of these lengths.
void check_valid(const Selection& kept, const kvevict::RowLayout<>& layout) {
  REQUIRE(kept.heads() == layout.heads());
  kvevict::require_valid(kept.view(), layout);
  for (std::int64_t h = 0; h < kept.heads(); ++h) {
    const auto head = kept.head(h);
    CHECK(std::adjacent_find(head.begin(), head.end(), std::greater_equal<>()) == head.end());
  }
}

}  // namespace

TEST_CASE("contract: exact counts for every number of rows and ratio", "[contract][budget]") {
  std::vector<std::size_t> rows = {0, 1, 2, 3, 5, 7, 10, 16, 33, 64, 100, 130};
  ContractCase given(reference::random_inputs(
      {.group = 1, .rows = rows, .dim = 4, .value_dim = 4, .queries = 5}, 1));
  TestResources res({.threads = 1});
  for (const auto& [name, policy] : default_policies()) {
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    for (const double ratio : {0.0, 0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.99, 1.0}) {
      INFO(name << ", ratio " << ratio);
      const Selection exact =
          kvevict::evict(res, policy, given.view(), evidence, Budget::evict_ratio(ratio));
      const Selection as_reference =
          kvevict::evict(res, policy, given.view(), evidence,
                         Budget::evict_ratio(ratio).with_rounding(kvevict::Rounding::reference));
      check_valid(exact, given.cache.layout());
      check_valid(as_reference, given.cache.layout());
      for (std::size_t h = 0; h < rows.size(); ++h) {
        const auto n = static_cast<std::int64_t>(rows[h]);
        const std::int64_t floor = ratio < 1 ? std::min<std::int64_t>(n, 1) : 0;
        CHECK(exact.count(static_cast<std::int64_t>(h)) ==
              std::max(floor, reference::exact_kept_rows(n, ratio)));
        CHECK(as_reference.count(static_cast<std::int64_t>(h)) ==
              reference::reference_kept_rows(n, ratio));
      }
    }
    for (const std::int64_t count : {0, 1, 2, 33, 1000}) {
      const Selection kept =
          kvevict::evict(res, policy, given.view(), evidence, Budget::rows(count));
      check_valid(kept, given.cache.layout());
      for (std::size_t h = 0; h < rows.size(); ++h) {
        CHECK(kept.count(static_cast<std::int64_t>(h)) ==
              std::min(count, static_cast<std::int64_t>(rows[h])));
      }
    }
  }
}

TEST_CASE("contract: the best rows beside the protected ones", "[contract][budget]") {
  ContractCase given(contract_inputs());
  TestResources res({.threads = 1});
  const kvevict::RowLayout<> layout = given.cache.layout();
  const std::vector<kvevict::PositionSpan> spans = {{6, 8}, {7, 9}};
  const kvevict::Protect protect{.sinks = 2, .recent = 3, .spans = spans};
  for (const auto& [name, policy] : policy_variants()) {
    INFO(name);
    const std::vector<float> scores = scores_of(given, policy);
    const Selection kept = kvevict::evict(res, policy, given.view(), given.evidence_for(policy),
                                          Budget::rows(12), protect);
    check_valid(kept, layout);
    for (const std::int64_t h : {0, 1, 3}) {
      const std::vector<float> head = head_of(scores, layout, h);
      reference::Positions positions(head.size());
      std::iota(positions.begin(), positions.end(), std::int64_t{0});
      const reference::Rows want =
          reference::select_top({head.begin(), head.end()}, 12,
                                reference::protected_rows(positions, 2, 3, {{6, 8}, {7, 9}}));
      const auto got = kept.head(h);
      CHECK(reference::Rows(got.begin(), got.end()) == want);
    }
  }
}

TEST_CASE("contract: protected rows that do not fit are an error", "[contract][budget]") {
  ContractCase given(contract_inputs());
  TestResources res({.threads = 1});
  for (const auto& [name, policy] : default_policies()) {
    INFO(name);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    try {
      kvevict::evict(res, policy, given.view(), evidence, Budget::rows(6),
                     {.sinks = 4, .recent = 3});
      FAIL("accepted");
    } catch (const kvevict::Error& error) {
      CHECK(error.kind() == kvevict::ErrorKind::budget);
      const std::string text = error.what();
      CHECK(text.find(" is 7,") != std::string::npos);
      CHECK(text.find(" 6") != std::string::npos);
    }
    // Seven fit exactly, and nothing else is kept then.
    const Selection kept = kvevict::evict(res, policy, given.view(), evidence, Budget::rows(7),
                                          {.sinks = 4, .recent = 3});
    CHECK(rows_of(kept)[0] == std::vector<std::int32_t>{0, 1, 2, 3, 37, 38, 39});
  }
}

TEST_CASE("contract: a global budget is spent exactly", "[contract][budget]") {
  ContractCase given(contract_inputs());
  TestResources res({.threads = 1});
  const kvevict::RowLayout<> layout = given.cache.layout();
  for (const auto& [name, policy] : default_policies()) {
    INFO(name);
    const kvevict::Evidence<> evidence = given.evidence_for(policy);
    const kvevict::GlobalBudget forced{.allow_incomparable = true};
    const std::vector<float> packed = scores_of(given, policy);
    reference::Scores scores;
    std::vector<reference::Rows> fixed;
    for (std::int64_t h = 0; h < layout.heads(); ++h) {
      const std::vector<float> head = head_of(packed, layout, h);
      scores.emplace_back(head.begin(), head.end());
      reference::Positions positions(head.size());
      std::iota(positions.begin(), positions.end(), std::int64_t{0});
      fixed.push_back(reference::protected_rows(positions, 1, 2));
    }
    for (const double ratio : {0.25, 0.5, 0.9}) {
      const Selection kept =
          kvevict::evict(res, policy, given.view(), evidence, Budget::evict_ratio(ratio),
                         {.sinks = 1, .recent = 2}, forced);
      check_valid(kept, layout);
      std::size_t total = 0;
      for (std::int64_t h = 0; h < layout.heads(); ++h) {
        total += static_cast<std::size_t>(Budget::evict_ratio(ratio).kept_rows(layout.rows(h)));
      }
      const std::vector<reference::Rows> want =
          reference::select_global(scores, total, fixed, 1, 1000);
      for (std::int64_t h = 0; h < layout.heads(); ++h) {
        const auto head = kept.head(h);
        CHECK(reference::Rows(head.begin(), head.end()) == want[static_cast<std::size_t>(h)]);
      }
    }
    if (policy.comparable_across_heads()) {
      CHECK_NOTHROW(kvevict::evict(res, policy, given.view(), evidence, Budget::evict_ratio(0.5),
                                   {}, kvevict::GlobalBudget{}));
    } else {
      try {
        kvevict::evict(res, policy, given.view(), evidence, Budget::evict_ratio(0.5), {},
                       kvevict::GlobalBudget{});
        FAIL("accepted");
      } catch (const kvevict::Error& error) {
        CHECK(error.kind() == kvevict::ErrorKind::unsupported);
      }
    }
  }
}
