// SPDX-License-Identifier: Apache-2.0
// Statistics of the probes' attention weights, by the ops, and selection by scores of one's own.
#include <string>
#include <vector>

#include "catch.hpp"
#include "golden/golden_checks.hpp"
#include "kvevict/allocators/global.hpp"
#include "kvevict/cpu/global_counts.hpp"
#include "kvevict/cpu/group_reduction.hpp"
#include "kvevict/cpu/select_top.hpp"
#include "kvevict/evict.hpp"
#include "policies/any_policy_calls.hpp"
#include "support/backend.hpp"

using namespace kvevict_test;
using kvevict::AttentionStatistic;
using kvevict::GroupReduction;
using kvevict::ReductionDomain;

namespace {

template <class T>
std::vector<float> scores_of(const GoldenEntry& entry, const kvevict::KvView<const T>& cache) {
  const std::string& name = required(entry.parameters, "statistic");
  const auto statistic = name == "mean"  ? AttentionStatistic::mean
                         : name == "rms" ? AttentionStatistic::root_mean_square
                                         : AttentionStatistic::maximum;
  TestResources res({.threads = 2});
  const auto per_query_head =
      kvevict::RowLayout<>::uniform(GoldenCase::query_heads, GoldenCase::rows);
  std::vector<float> weights(static_cast<std::size_t>(per_query_head.total()));
  std::vector<float> scores(static_cast<std::size_t>(cache.layout().total()));
  kvevict::attention_statistic(res, cache.keys(), cache.positions(), golden_case(entry).probes(),
                               0.125f, statistic,
                               kvevict::ScoreView<>{weights.data(), per_query_head});
  kvevict::reduce_group(res, kvevict::ScoreView<>{weights.data(), per_query_head},
                        name == "max" ? GroupReduction::max : GroupReduction::mean,
                        name == "rms" ? ReductionDomain::square_root : ReductionDomain::linear,
                        kvevict::ScoreView<>{scores.data(), cache.layout()});
  return scores;
}

template <class Allocator>
kvevict::Selection select(const GoldenEntry& entry, const Allocator& allocator) {
  const kvevict::KvView<const float> cache = golden_case(entry).cache();
  std::vector<float> scores = scores_of(entry, cache);
  TestResources res({.threads = 2});
  kvevict::Selection kept;
  kvevict::select_rows(res, kept, kvevict::ScoreView<>{scores.data(), cache.layout()}, cache, true,
                       golden_budget(entry), golden_protection(entry), allocator);
  return kept;
}

}  // namespace

TEST_CASE("golden: every stored statistic of the probes' attention is reproduced", "[golden]") {
  std::size_t count = 0;
  for (const GoldenEntry& entry : golden_data().entries("score", "ProbeAttention")) {
    const std::vector<float> scores = scores_of(entry, golden_case(entry).cache());
    const Comparison comparison = compare_scores(entry, scores);
    INFO(entry.id << ": " << comparison.describe());
    CHECK(comparison.within());
    CHECK(scores_of(entry, golden_case(entry).half_cache()) == scores);
    ++count;
  }
  CHECK(count == 6);
}

TEST_CASE("golden: kept sets of the probes' attention, uniform and global", "[golden]") {
  std::size_t global = 0;
  std::size_t uniform = 0;
  for (const GoldenEntry& entry : golden_data().entries("kept", "ProbeAttention")) {
    INFO(entry.id);
    const bool is_global = required(entry.selection, "budget") == "global";
    const kvevict::Selection kept = is_global ? select(entry, kvevict::GlobalBudget{})
                                              : select(entry, kvevict::UniformBudget{});
    CHECK(rows_of(kept) == kept_rows(golden_data(), entry));
    ++(is_global ? global : uniform);
  }
  CHECK(global == 4);
  CHECK(uniform == 4);
}
