// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "catch.hpp"
#include "golden/golden_checks.hpp"
#include "policies/any_policy_calls.hpp"
#include "support/backend.hpp"

namespace scores_test {

using namespace kvevict_test;

namespace {

template <class T>
std::vector<float> scores_of(const GoldenEntry& entry, const kvevict::KvView<const T>& cache) {
  TestResources res({.threads = 1});
  std::vector<float> scores(static_cast<std::size_t>(cache.layout().total()));
  kvevict::score_rows(res, golden_policy(entry), cache, golden_case(entry).evidence(entry),
                      kvevict::ScoreView<>{scores.data(), cache.layout()});
  return scores;
}

}  // namespace

TEST_CASE("golden: every stored score of a policy is reproduced", "[golden]") {
  std::size_t count = 0;
  for (const GoldenEntry& entry : golden_data().entries("score")) {
    if (!is_of_policy(entry)) continue;
    if (!case_runs(++count)) continue;
    const std::vector<float> scores = scores_of(entry, golden_case(entry).cache());
    const Comparison comparison = compare_scores(entry, scores);
    INFO(entry.id << ": " << comparison.describe());
    CHECK(comparison.within());
    CHECK(comparison.size ==
          GoldenCase::kv_heads * (GoldenCase::rows - entry.forced_first - entry.forced_last));

    const std::vector<float> from_half = scores_of(entry, golden_case(entry).half_cache());
    CHECK(std::memcmp(from_half.data(), scores.data(), scores.size() * sizeof(float)) == 0);
  }
  CHECK(count == 126);
}

}  // namespace scores_test
