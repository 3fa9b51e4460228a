// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/selections.hpp"
#include "golden/golden_case.hpp"
#include "kvevict/core/budget.hpp"
#include "kvevict/core/protect.hpp"
#include "kvevict/core/selection.hpp"
#include "support/tolerance.hpp"

namespace kvevict_test {

// Whether an entry is one of a policy of the library: others need more than a policy does, such as
// all heads of a layer, and have tests of their own.
inline bool is_of_policy(const GoldenEntry& entry) {
  for (const kvevict::AnyPolicy& policy : kvevict::AnyPolicy::all()) {
    if (policy.name() == entry.policy) return true;
  }
  return false;
}

// Scores of all rows of the case against the stored ones, but for the rows where the stored ones
// are sentinels, within the tolerance of the index.
inline Comparison compare_scores(const GoldenEntry& entry, const std::vector<float>& got) {
  const std::vector<double> want = golden_data().array(entry.id).values_double();
  Comparison comparison;
  for (std::int64_t h = 0; h < GoldenCase::kv_heads; ++h) {
    for (std::int64_t i = entry.forced_first; i < GoldenCase::rows - entry.forced_last; ++i) {
      const auto at = static_cast<std::size_t>(h * GoldenCase::rows + i);
      add(comparison, static_cast<double>(got.at(at)), want.at(at), entry.tolerance);
    }
  }
  return comparison;
}

// Budget and protection of a kept set, rounded as its source rounds.
inline kvevict::Budget golden_budget(const GoldenEntry& entry) {
  return kvevict::Budget::evict_ratio(required_number(entry.selection, "evict_ratio"))
      .with_rounding(kvevict::Rounding::reference);
}

inline kvevict::Protect golden_protection(const GoldenEntry& entry) {
  return {.sinks = required_integer(entry.selection, "sinks"),
          .recent = required_integer(entry.selection, "recent")};
}

}  // namespace kvevict_test
